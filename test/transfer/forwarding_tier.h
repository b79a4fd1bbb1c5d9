// A tier that does as another does, for doubles that change some calls of it.
#pragma once

#include <memory>
#include <utility>

#include "tensorpager/transfer/tier.h"

namespace tensorpager::transfer {

class ForwardingTier : public Tier {
 public:
  explicit ForwardingTier(std::unique_ptr<Tier> tier = make_ram_tier()) : tier_(std::move(tier)) {}

  Slot reserve(base::Bytes bytes) override { return tier_->reserve(bytes); }
  void release(const Slot& slot) noexcept override { tier_->release(slot); }
  void write(std::span<const std::byte> from, const Slot& slot, base::Bytes at) override {
    tier_->write(from, slot, at);
  }
  void read(const Slot& slot, base::Bytes at, std::span<std::byte> to) override { tier_->read(slot, at, to); }
  bool may_fail_late() const override { return tier_->may_fail_late(); }
  void after_fork() override { tier_->after_fork(); }
  base::Bytes reserved() const override { return tier_->reserved(); }
  std::string name() const override { return tier_->name(); }

 private:
  std::unique_ptr<Tier> tier_;
};

}  // namespace tensorpager::transfer
