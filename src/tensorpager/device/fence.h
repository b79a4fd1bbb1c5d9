// Order between queues of work, as values. Each queue does its work in the order of submission, so a number says how
// far it is.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
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

// g++ does not see under sanitizers that only numbers of queues that are named are read.
#ifndef __clang__  // which does not know the warning
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

/// What must be done before something else begins: of each queue all work up to a ticket. Fences are merged, so one
/// says all that a later user of some bytes or of some place has to wait for. It knows order only: whether a piece of
/// work failed, its ticket tells.
class Fence {
 public:
  Fence() = default;  // nothing
  // NOLINTNEXTLINE(google-explicit-constructor): a ticket says what is to be waited for, too
  Fence(const Ticket& ticket) { add(index_of(ticket.queue), ticket.number); }
  // Of all queues few are named, so no more than those is copied.
  Fence(const Fence& other) : named_(other.named_) { copy_numbers_of(other); }
  Fence& operator=(const Fence& other) {
    named_ = other.named_;
    copy_numbers_of(other);
    return *this;
  }
  ~Fence() = default;

  Fence& operator|=(const Fence& other) {
    other.for_each_index([&](std::size_t i) { add(i, other.up_to_[i]); });
    return *this;
  }
  /// Both.
  Fence operator|(const Fence& other) const {
    Fence both = *this;
    both |= other;
    return both;
  }

  std::uint64_t up_to(Queue queue) const { return names(index_of(queue)) ? up_to_[index_of(queue)] : 0; }
  /// Whether what it waits for is done no earlier than this ticket.
  bool covers(const Ticket& ticket) const { return ticket.number <= up_to(ticket.queue); }
  bool is_empty() const { return named_ == 0; }
  bool operator==(const Fence& other) const {
    bool is_equal = named_ == other.named_;
    for_each_index([&](std::size_t i) { is_equal = is_equal && up_to_[i] == other.up_to_[i]; });
    return is_equal;
  }
  /// Calls `visit(queue, number)` for each queue that it names.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for_each_index([&](std::size_t i) { visit(static_cast<Queue>(i), up_to_[i]); });
  }

 private:
  bool names(std::size_t index) const { return (named_ >> index & 1) != 0; }
  void add(std::size_t index, std::uint64_t number) {
    if (number == 0) return;
    if (!names(index) || up_to_[index] < number) up_to_[index] = number;
    named_ |= std::uint64_t{1} << index;
  }
  void copy_numbers_of(const Fence& other) {
    for_each_index([&](std::size_t i) { up_to_[i] = other.up_to_[i]; });
  }
  template <typename Visit>
  void for_each_index(Visit&& visit) const {
    for (std::uint64_t left = named_; left != 0; left &= left - 1)
      visit(static_cast<std::size_t>(std::countr_zero(left)));
  }

  std::uint64_t named_ = 0;  // a bit for each queue that has a number
  static_assert(kQueues <= 64);
  std::array<std::uint64_t, kQueues> up_to_;  // of those, never 0; the others are not set, as most fences name few
};

#ifndef __clang__
#pragma GCC diagnostic pop
#endif

}  // namespace tensorpager::device
