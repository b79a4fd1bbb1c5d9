// When a running program is analysed, or its active plan checked. Counts go in; "now?" comes out. It knows no pager and
// no thread, and its owner's lock guards it.
//
//   pace     due at                                                    changes to
//   kBySteps the next step that is due; as long as none is marked,     kByOps when a plan becomes active
//            the next op that is due
//   kByOps   the next op that is due: every few windows of the plan    kBySteps when the plan is dropped
//   kNever   never                                                     kByOps when a plan becomes active
#pragma once

#include <atomic>
#include <cstdint>

namespace tensorpager::guide {

class AnalysisSchedule {
 public:
  static constexpr std::uint64_t kFirstSteps = 3;  // fewer show no two equal: an optimizer makes its state in the first
  static constexpr std::uint64_t kFirstOps = 1024;  // if nothing marks steps
  static constexpr std::uint64_t kCheckWindows = 4;
  static constexpr std::uint64_t kMostDoublings = 16;  // of the time until the next analysis
  static constexpr std::uint64_t kFitsBeforePause = 2;
  /// After so many boundaries on other threads, the thread that a plan is for has ended.
  static constexpr std::uint64_t kMostMissedBoundaries = 1000;

  /// Whether `count_ops` can return true. Any thread may ask without the lock.
  bool may_be_due(std::uint64_t ops) const { return ops >= next_op_.load(std::memory_order_relaxed); }

  /// The program has called `ops` ops that touch a block. Returns whether an analysis or a check is due; the next is
  /// due after a quarter more.
  bool count_ops(std::uint64_t ops);
  /// A step has ended. Returns likewise.
  bool count_step();
  std::uint64_t steps() const { return steps_; }

  void plan_activated(std::uint64_t ops, std::uint64_t window_ops);
  void plan_checked(std::uint64_t ops);
  /// `drops`: plans in a row that were dropped, with this one. Each doubles the time until the next analysis: ops of
  /// several threads together may look as if they repeated, time and again.
  void plan_dropped(std::uint64_t ops, std::uint64_t drops);
  void recording_resumed(std::uint64_t ops);

  /// An analysis found that all windows fit into the budget, or that some do not.
  void all_fitted() { ++fits_; }
  void not_all_fitted() { fits_ = 0; }
  /// Whether that was found so often that recording may pause.
  bool fits_for_long() const { return fits_ >= kFitsBeforePause; }

  /// The thread that a plan is for was not, or was, at the newest boundary. Returns whether it has ended.
  bool miss_boundary() { return ++missed_boundaries_ > kMostMissedBoundaries; }
  void meet_boundary() { missed_boundaries_ = 0; }

  /// No more is due, unless a plan becomes active.
  void stop() { pace_ = Pace::kNever; }

 private:
  enum class Pace : std::uint8_t { kBySteps, kByOps, kNever };

  std::atomic<std::uint64_t> next_op_{kFirstOps};
  std::uint64_t next_step_ = kFirstSteps;
  std::uint64_t steps_ = 0;
  std::uint64_t window_ops_ = 0;  // of the newest plan; 0: there was none
  std::uint64_t fits_ = 0;        // analyses in a row at which all windows fitted
  std::uint64_t missed_boundaries_ = 0;
  Pace pace_ = Pace::kBySteps;
};

}  // namespace tensorpager::guide
