// The RAM tier: one range of private anonymous memory, so that it costs one mapping and a fork copies it on write.
// Transfers are copies, done when they are submitted.
#pragma once

#include "tensorpager/base/extents.h"
#include "tensorpager/transfer/engine.h"

namespace tensorpager::transfer {

class RamEngine final : public Engine {
 public:
  /// Sets aside addresses for `capacity`, a multiple of the page; pages are allocated when first written.
  explicit RamEngine(base::Bytes capacity);
  ~RamEngine() override;
  RamEngine(const RamEngine&) = delete;
  RamEngine& operator=(const RamEngine&) = delete;

  Slot reserve(base::Bytes bytes) override;
  void release(const Slot& slot) noexcept override;
  Ticket submit_page_out(std::span<const std::byte> from, const Slot& slot, base::Bytes at) override;
  Ticket submit_page_in(const Slot& slot, base::Bytes at, std::span<std::byte> to) override;
  void wait(Ticket) override {}
  bool may_fail_late() const override { return false; }
  void after_fork(bool) override {}
  base::Bytes reserved() const override { return space_.taken(); }
  std::string name() const override { return "RAM"; }

 private:
  base::Bytes capacity_;
  std::byte* range_;
  base::Extents space_;
  std::uint64_t populated_ = 0;  // pages at and above this offset have been given back, or were never written
};

}  // namespace tensorpager::transfer
