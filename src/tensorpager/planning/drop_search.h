// Which storages to drop and rebuild: a search over the gaps of recomputation.h. A choice is judged by what its window
// takes when all else is decided by bytes: nothing has an offset yet, and no boundary table counts. So it is judged
// with a little less than the budget, and then with still less: offsets leave gaps. Where placing blocks makes plans
// much slower than they are judged, choices are judged with less again.
//
// First come choices that drop what costs least for each byte, and choices that take away the highest peaks. The best
// of them is annealed: changed at random, a few storages at a time. A change is kept if the window becomes quicker; at
// the beginning also now and then if it becomes a little slower.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <unordered_set>
#include <vector>

#include "tensorpager/planning/peak_shaving.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/planning/recomputation.h"

namespace tensorpager::planning {

/// What may be done with what does not fit.
enum class Means : std::uint8_t { kReplays, kReplaysAndTransfers };

class DropSearch {
 public:
  struct Choice {
    std::vector<Drop> dropped;  // by number of droppable()
    Arguments arguments = Arguments::kFreed;
    std::vector<Replay> replays = {};
    Nanoseconds step = Nanoseconds::max();  // this if it does not fit; else as Candidate::step
  };

  /// Parts of the budget that choices are judged without, one after the other.
  using Shares = std::array<double, 2>;
  static constexpr Shares kLittle = {0.005, 0.015};
  static constexpr Shares kMore = {0.04, 0.08};  // for windows whose blocks leave wide gaps between them

  DropSearch(const Groundwork& groundwork, Means means);

  /// Returns the best few choices for each of the budgets that are judged with, the best first; none if no choice
  /// fits. To drop nothing is one of those judged. A search after the first goes on from what that found.
  std::vector<Choice> run(const Shares& without = kLittle);
  bool is_large() const;

 private:
  void search_within(base::Bytes budget, const Choice* begin_with);
  /// The choice with its replays, not judged; nullopt if these would be too many.
  std::optional<Choice> choose(std::vector<Drop> dropped, Arguments arguments) const;
  /// Sets the step, which stays Nanoseconds::max() if replays alone make it longer than `most`.
  void judge(Choice& choice, Nanoseconds most = Nanoseconds::max());
  Nanoseconds step_of(const trace::Trace& rewritten) const;
  /// A step is no shorter: what has no room where the most is live is paged in once. As Choice::step.
  Nanoseconds least_step(const std::vector<Drop>& dropped) const;
  /// Judges it, and keeps it if it is one of the best few.
  void offer(std::vector<Drop> dropped, Arguments arguments);
  void keep(const Choice& choice);
  /// What is dropped once, and the same with all of it rebuilt again and again.
  void offer_both(std::vector<Drop> dropped, Arguments arguments);
  void construct(Arguments arguments);
  std::optional<Choice> best() const;
  void drop_by_ratio(Arguments arguments);
  void shave_peaks(Arguments arguments);
  void anneal(Choice at, std::size_t judgements);
  std::vector<Drop> changed(const Choice& choice);
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  const Groundwork& groundwork_;
  Means means_;
  Recomputation recomputation_;
  PeakShaving shaving_;
  trace::Trace unnamed_;                     // the window; names would be copied for each choice
  base::Bytes budget_;                       // that choices are judged with
  std::size_t judged_ = 0;                   // choices
  std::vector<Choice> best_;                 // within this budget, by step
  std::unordered_set<std::size_t> offered_;  // hashes of the replays of choices, within this budget
  std::optional<Choice> last_;               // the best within the budget before
  std::mt19937 random_{1};
};

}  // namespace tensorpager::planning
