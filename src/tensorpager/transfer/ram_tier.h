// The RAM tier: one range of private anonymous memory, so that it costs one mapping and a fork copies it on write.
#pragma once

#include "tensorpager/base/extents.h"
#include "tensorpager/transfer/tier.h"

namespace tensorpager::transfer {

class RamTier final : public Tier {
 public:
  /// Sets aside addresses for `capacity`, a multiple of the page; pages are allocated when first written.
  explicit RamTier(base::Bytes capacity);
  ~RamTier() override;
  RamTier(const RamTier&) = delete;
  RamTier& operator=(const RamTier&) = delete;

  Slot reserve(base::Bytes bytes) override;
  void release(const Slot& slot) noexcept override;
  void write(std::span<const std::byte> from, const Slot& slot, base::Bytes at) override;
  void read(const Slot& slot, base::Bytes at, std::span<std::byte> to) override;
  bool may_fail_late() const override { return false; }
  void after_fork() override {}  // the kernel copies the memory on write
  base::Bytes reserved() const override { return space_.taken(); }
  std::string name() const override { return "RAM"; }

 private:
  base::Bytes capacity_;
  std::byte* range_;
  base::Extents space_;
  std::uint64_t populated_ = 0;  // pages at and above this offset have been given back, or were never written
};

}  // namespace tensorpager::transfer
