// Queues that do as others do, for doubles that change some calls of them.
#pragma once

#include <memory>
#include <utility>

#include "tensorpager/transfer/queues.h"

namespace tensorpager::transfer {

class ForwardingQueues : public Queues {
 public:
  explicit ForwardingQueues(std::unique_ptr<Queues> queues) : queues_(std::move(queues)) {}

  Slot reserve(base::Bytes bytes) override { return queues_->reserve(bytes); }
  void release(const Slot& slot) noexcept override { queues_->release(slot); }
  Ticket submit(PageOut transfer) override { return queues_->submit(std::move(transfer)); }
  Ticket submit(PageIn transfer) override { return queues_->submit(std::move(transfer)); }
  void wait(Ticket ticket) override { queues_->wait(ticket); }
  Fence submitted() const override { return queues_->submitted(); }
  bool is_done(const Fence& fence) override { return queues_->is_done(fence); }
  void host_wait(const Fence& fence) noexcept override { queues_->host_wait(fence); }
  bool cancel(Ticket ticket) noexcept override { return queues_->cancel(ticket); }
  bool may_fail_late() const override { return queues_->may_fail_late(); }
  void before_fork() override { queues_->before_fork(); }
  void after_fork(bool in_child) override { queues_->after_fork(in_child); }
  base::Bytes reserved() const override { return queues_->reserved(); }
  base::Bytes pinned() const override { return queues_->pinned(); }
  Rates rates() const override { return queues_->rates(); }
  std::string name() const override { return queues_->name(); }

 private:
  std::unique_ptr<Queues> queues_;
};

}  // namespace tensorpager::transfer
