// Queues that are always empty: a transfer is done when its submission returns, and a failure is thrown there.
#include <utility>

#include "tensorpager/transfer/queues.h"

namespace tensorpager::transfer {
namespace {

using base::Bytes;

class SynchronousQueues final : public Queues {
 public:
  explicit SynchronousQueues(std::unique_ptr<Tier> tier) : tier_(std::move(tier)) {}

  Slot reserve(Bytes bytes) override { return tier_->reserve(bytes); }
  void release(const Slot& slot) noexcept override { tier_->release(slot); }
  Ticket submit(PageOut transfer) override {
    if (transfer.first) transfer.first();
    tier_->write(transfer.from, transfer.slot, transfer.at);
    return {};
  }
  Ticket submit(PageIn transfer) override {
    for (const std::span<std::byte> part : transfer.to) {
      tier_->read(transfer.slot, transfer.at, part);
      transfer.at += Bytes(part.size());
    }
    if (transfer.then) transfer.then();
    return {};
  }
  void wait(Ticket) override {}
  Fence submitted() const override { return {}; }
  bool is_done(const Fence&) override { return true; }
  void host_wait(const Fence&) noexcept override {}
  bool cancel(Ticket) noexcept override { return false; }
  bool may_fail_late() const override { return tier_->may_fail_late(); }
  void before_fork() override {}  // nothing is in flight
  void after_fork(bool) override { tier_->after_fork(); }
  Bytes reserved() const override { return tier_->reserved(); }
  Bytes pinned() const override { return {}; }
  Rates rates() const override { return {}; }
  std::string name() const override { return tier_->name(); }

 private:
  std::unique_ptr<Tier> tier_;
};

}  // namespace

std::unique_ptr<Queues> make_synchronous_queues(std::unique_ptr<Tier> tier) {
  return std::make_unique<SynchronousQueues>(std::move(tier));
}

}  // namespace tensorpager::transfer
