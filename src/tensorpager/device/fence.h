// Order between queues of work, as values. Each queue does its work in the order of submission, so a number says how
// far it is.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

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
  Fence(const Ticket& ticket) { up_to_[index_of(ticket.queue)] = ticket.number; }

  /// Both.
  Fence operator|(const Fence& other) const {
    Fence both = *this;
    for (std::size_t i = 0; i < kQueues; ++i) both.up_to_[i] = std::max(up_to_[i], other.up_to_[i]);
    return both;
  }
  Fence& operator|=(const Fence& other) { return *this = *this | other; }

  std::uint64_t up_to(Queue queue) const { return up_to_[index_of(queue)]; }
  /// Whether what it waits for is done no earlier than this ticket.
  bool covers(const Ticket& ticket) const { return ticket.number <= up_to(ticket.queue); }
  bool is_empty() const { return *this == Fence(); }
  friend bool operator==(const Fence&, const Fence&) = default;

 private:
  std::array<std::uint64_t, kQueues> up_to_{};
};

}  // namespace tensorpager::device
