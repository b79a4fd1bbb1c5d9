#include "tensorpager/follow/page_out_queue.h"

#include <algorithm>

namespace tensorpager::follow {

void PageOutQueue::await(std::uint32_t ticket, std::vector<Action>& actions) {
  const std::uint64_t until = count_until(ticket);
  for (std::uint64_t i = forgotten_; i < until; ++i) {
    const PageOut& page_out = page_outs_[i - forgotten_];
    const auto kind = i < queued_ ? Action::Kind::kAwaitCopy : Action::Kind::kAwait;
    if (page_out.block != nullptr)
      actions.push_back({.kind = kind, .block = page_out.block, .number = page_out.number});
  }
  forget_until(until);
}

void PageOutQueue::await_queued(std::uint32_t ticket, std::vector<Action>& actions) {
  queue_until(count_until(ticket), actions);
}

void PageOutQueue::await_all_queued(std::vector<Action>& actions) {
  queue_until(all(), actions);
  forget_all();
}

void PageOutQueue::begin_window(std::uint64_t window, std::uint64_t op, std::vector<Action>& actions) {
  std::erase_if(not_submitted_, [&](const NotSubmitted& one) { return one.until <= op; });
  while (!page_outs_.empty() && page_outs_.front().window + 2 < window) {
    queue_until(forgotten_ + 1, actions);
    forget_until(forgotten_ + 1);
  }
}

base::Bytes PageOutQueue::not_submitted(std::uint64_t op) const {
  base::Bytes bytes;
  for (const NotSubmitted& one : not_submitted_)
    if (op < one.until) bytes += one.bytes;
  return bytes;
}

std::uint64_t PageOutQueue::count_until(std::uint32_t ticket) const {
  const auto newest = std::find_if(page_outs_.rbegin(), page_outs_.rend(),
                                   [&](const PageOut& page_out) { return page_out.ticket == ticket; });
  return newest == page_outs_.rend() ? 0 : forgotten_ + static_cast<std::uint64_t>(page_outs_.rend() - newest);
}

void PageOutQueue::queue_until(std::uint64_t count, std::vector<Action>& actions) {
  for (; queued_ < count; ++queued_)
    if (const PageOut& page_out = page_outs_[queued_ - forgotten_]; page_out.block != nullptr)
      actions.push_back({.kind = Action::Kind::kAwaitQueued, .block = page_out.block, .number = page_out.number});
}

void PageOutQueue::forget_until(std::uint64_t count) {
  for (; forgotten_ < count; ++forgotten_) page_outs_.pop_front();
  queued_ = std::max(queued_, forgotten_);
}

}  // namespace tensorpager::follow
