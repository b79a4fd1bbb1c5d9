// One way to plan for a problem: what is below, when it moves and where blocks lie, for as many bytes and as much
// effort as is said. The planner `pages` makes several, and compares what they come to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tensorpager/planning/eviction.h"
#include "tensorpager/planning/online.h"
#include "tensorpager/planning/packing/packing.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/planning/schedule.h"

namespace tensorpager::planning {

/// Plans for less, before other means are tried: so many, and fewer where a round takes long. Each has its share of the
/// effort of packing.
constexpr std::size_t kFeedbackRounds = 8;
/// Plans of more blocks are not settled: a pass takes the square of them.
constexpr std::size_t kMostSettled = 4000;

struct Candidate {
  std::vector<Row> rows;
  Nanoseconds step;  // with the links that are planned with, and with the machine's: the sum
  std::vector<Interval> intervals;
  Technique technique = Technique::kNone;
};

/// How long a window takes with the links that are planned with, and with the machine's own: the sum, as links that
/// keep their rate are as likely as those that do not.
Nanoseconds step_of(const std::vector<Row>& rows, const std::vector<Nanoseconds>& op_times, const Machine& planned_with,
                    const Machine& own);

/// What transfers cost on a machine. The overhead is the number of bytes that both links move in the CPU time of a
/// page-out and a page-in.
TransferCosts costs_of(const Machine& machine);

/// The quickest few plans.
class Candidates {
 public:
  void offer(Candidate candidate);
  bool empty() const { return kept_.empty(); }
  Nanoseconds least_step() const { return kept_.empty() ? Nanoseconds::max() : kept_.front().step; }
  std::vector<Candidate>& all() { return kept_; }

 private:
  std::vector<Candidate> kept_;  // by step
};

/// Which storages are evicted where there is no room.
enum class Rule : std::uint8_t { kFarthestNextUse, kLongestIdle };

class Attempt {
 public:
  /// `rule` is the first if there is a boundary.
  Attempt(const Groundwork& groundwork, const Boundary* boundary, TransferCosts costs,
          Rule rule = Rule::kFarthestNextUse);

  /// Adds one round's share to the effort that is left.
  void allow_packing(std::size_t intervals) { effort_.looks += looks_a_round(intervals); }

  /// Makes a schedule by bytes alone, within `space`.
  std::vector<Interval> schedule(std::uint64_t space) const;

  /// Tails and page-ins under way take their blocks for `share` of the time expected.
  std::uint64_t place(std::vector<Interval>& intervals, double share);

  /// With tails and page-ins under way given up where there is no room for them; whether that fits.
  bool place_over_transfers(const std::vector<Interval>& scheduled, Candidates& found);

  void place_with_shorter_tails(const std::vector<Interval>& scheduled, Candidates& found);

  Candidate finish(std::vector<Interval> intervals, Technique technique) const;

  /// `Candidate::step` if nothing stalls.
  Nanoseconds shortest_step() const { return 2 * groundwork_.starts.back(); }

  /// Were all of the space one range of bytes: what packing may come to.
  Nanoseconds step_by_bytes(const std::vector<Interval>& intervals) const;

  /// Blocks closer together, where the time that it takes is worth it. They are charged until a wait covers their
  /// page-out, which other offsets may put off; then the plan may even be quicker.
  Candidate settle(Candidate best, std::uint64_t looks) const;

  /// The step time plus a penalty for the space that the plan wastes, in the same unit.
  double cost_of(const Candidate& candidate) const;

  /// Places online, and returns the quicker of two: evicting with knowledge of next uses, or by least recent use; the
  /// first must sometimes free long ranges that are used soon. Returns nullopt if a boundary table does not place.
  std::optional<Candidate> online() const;

 private:
  std::optional<Candidate> online(Victim victim) const;

  Nanoseconds step_of(const std::vector<Row>& rows) const;

  std::uint64_t looks_a_round(std::size_t intervals) const;

  /// Packs with the tails that page-outs have where they are placed; bytes alone predict other tails. It has an effort
  /// of its own, for where the first plan fits the next matters more.
  void place_again_over_transfers(std::vector<Interval> intervals, const Candidate& placed, PackingOrder by,
                                  Candidates& found) const;

  /// Sets the tails that follow from its waits by offsets and its own times.
  std::vector<Interval> with_tails(const Candidate& candidate, Tails until) const;

  Evictions choose_evictions(std::uint64_t space) const;

  void fix_boundary(std::vector<Interval>& intervals) const;

  /// Marks storages from the boundary as dirty: a window of another class may have written them.
  void take_for_dirty(std::vector<Interval>& intervals) const;

  const Groundwork& groundwork_;
  const Boundary* boundary_;  // null: whatever is best
  TransferCosts costs_;
  Rule rule_;
  Machine machine_;
  const Techniques& techniques_;
  PackingEffort effort_;  // the effort that is left
  std::uint32_t ops_;
};

}  // namespace tensorpager::planning
