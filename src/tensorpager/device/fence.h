// Order between queues of work, as values. Each queue does its work in the order of submission, so a number says how
// far it is.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "tensorpager/base/inline_vector.h"

namespace tensorpager::device {

/// The queues of transfers; and those in which a device computes, one for each of its streams that the program uses:
/// kCompute and the kComputeQueues - 1 after it. A host computes in none, as what it has called is done.
enum class Queue : std::uint8_t { kPageOuts, kPageIns, kCompute };
inline constexpr std::size_t kComputeQueues = 62;  // torch has 32 streams of each priority, of which two are in use
inline constexpr std::size_t kQueues = static_cast<std::size_t>(Queue::kCompute) + kComputeQueues;

constexpr std::size_t index_of(Queue queue) { return static_cast<std::size_t>(queue); }

/// One piece of work in a queue. Tickets of one queue ascend in the order of submission.
struct Ticket {
  Queue queue = Queue::kPageOuts;
  std::uint64_t number = 0;  // 0: done already

  bool is_finished() const { return number == 0; }
  friend auto operator<=>(const Ticket&, const Ticket&) = default;
};

/// What must be done before something else begins: of each queue all work up to a ticket. Fences are merged, so one
/// says all that a later user of some bytes or of some place has to wait for. It knows order only: whether a piece of
/// work failed, its ticket tells.
class Fence {
 public:
  Fence() = default;  // nothing
  // NOLINTNEXTLINE(google-explicit-constructor): a ticket says what is to be waited for, too
  Fence(const Ticket& ticket) { add(ticket); }

  Fence& operator|=(const Fence& other) {
    for (const Ticket& ticket : other.tickets_) add(ticket);
    return *this;
  }
  /// Both.
  Fence operator|(const Fence& other) const {
    Fence both = *this;
    both |= other;
    return both;
  }

  std::uint64_t up_to(Queue queue) const {
    const Ticket* const found = find(queue);
    return found != tickets_.end() && found->queue == queue ? found->number : 0;
  }
  /// Whether what it waits for is done no earlier than this ticket.
  bool covers(const Ticket& ticket) const { return ticket.number <= up_to(ticket.queue); }
  bool is_empty() const { return tickets_.empty(); }
  bool operator==(const Fence& other) const { return std::ranges::equal(tickets_, other.tickets_); }
  /// Calls `visit(queue, number)` for each queue that it names.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Ticket& ticket : tickets_) visit(ticket.queue, ticket.number);
  }

 private:
  /// The ticket of this queue, or of the first queue after it.
  const Ticket* find(Queue queue) const {
    const Ticket* at = tickets_.begin();
    while (at != tickets_.end() && at->queue < queue) ++at;
    return at;
  }
  void add(const Ticket& ticket) {
    if (ticket.is_finished()) return;
    const std::size_t at = static_cast<std::size_t>(find(ticket.queue) - tickets_.begin());
    Ticket* const place = tickets_.begin() + at;
    if (place != tickets_.end() && place->queue == ticket.queue) {
      place->number = std::max(place->number, ticket.number);
      return;
    }
    tickets_.push_back(ticket);
    std::rotate(tickets_.begin() + at, tickets_.end() - 1, tickets_.end());
  }

  static constexpr std::size_t kInline = 6;  // queues: those of transfers, and of as many streams as programs use

  base::InlineVector<Ticket, kInline> tickets_;  // at most one of a queue, none of which is finished; by queue
};

}  // namespace tensorpager::device
