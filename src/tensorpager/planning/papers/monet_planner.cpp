// Shah, Wu, Mohan, Chidambaram, Kraehenbuehl: Memory Optimization for Deep Networks (MONeT), 2021.
//
// An integer program says what the forward pass keeps and what the backward pass rebuilds: the least sum of
// recomputations such that the memory of every op fits. Nothing is swapped.
//
// The paper solves it by a commercial solver in hours. Here it is solved approximately by Lagrangian relaxation: each
// op has a price for a byte above the budget, a storage is dropped if it costs less to rebuild than the prices of the
// ops that it is idle at, and prices rise where too much is kept. What most rounds drop is taken until all fits, and
// what turns out not to be needed is kept after all. What replays need where they run, which the paper's program
// counts, is found by rewriting the window; the program is solved again with it. The paper's choices among
// implementations of an op, which trade workspace for time, are not made: a trace has one.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "tensorpager/plan/rewriting.h"
#include "tensorpager/planning/papers/completion.h"
#include "tensorpager/planning/papers/papers.h"
#include "tensorpager/planning/recomputation.h"
#include "tensorpager/planning/segment_tree.h"

namespace tensorpager::planning {
namespace {

constexpr int kPriceRounds = 200;      // of prices
constexpr double kFirstPriceStep = 1;  // by how much a price rises, in powers of e, where the excess is largest
constexpr double kLeastPrice = 1e-4;   // price, as a part of the one that all begin with

/// Storages to drop, of which each op must be relieved of so many bytes.
class Covering {
 public:
  /// `costs` by number of `gaps`, in seconds; `excess` by op, in bytes.
  Covering(const std::vector<Droppable>& gaps, const std::vector<double>& costs,
           const std::vector<std::int64_t>& excess)
      : gaps_(gaps), costs_(costs), excess_(excess) {}

  /// By number of the gaps; all if that is too little.
  std::vector<bool> solve() {
    const std::int64_t most = excess_.empty() ? 0 : std::ranges::max(excess_);
    std::vector<bool> chosen(gaps_.size());
    if (most <= 0) return chosen;
    rounds_dropping_.assign(gaps_.size(), 0);
    const double begin = first_price();
    std::vector<double> prices(excess_.size(), begin);
    for (int round = 0; round < kPriceRounds; ++round) {
      const std::vector<std::int64_t> left = left_by(drop_at(prices));
      const double step = kFirstPriceStep / std::sqrt(1.0 + round);
      for (std::size_t op = 0; op < prices.size(); ++op) {
        const double change = static_cast<double>(left[op]) / static_cast<double>(most);
        prices[op] = std::max(kLeastPrice * begin, prices[op] * std::exp(step * std::clamp(change, -1.0, 1.0)));
      }
    }
    cover(chosen);
    return chosen;
  }

 private:
  /// A byte and op at which the middle gap is just worth dropping.
  double first_price() const {
    std::vector<double> prices;
    prices.reserve(gaps_.size());
    for (std::size_t i = 0; i < gaps_.size(); ++i)
      prices.push_back(costs_[i] / (static_cast<double>(gaps_[i].bytes) * (gaps_[i].to - gaps_[i].from)));
    const auto middle = prices.begin() + static_cast<std::ptrdiff_t>(prices.size() / 2);
    std::ranges::nth_element(prices, middle);
    return prices.empty() ? 1 : std::max(*middle, 1e-30);
  }

  std::vector<bool> drop_at(const std::vector<double>& prices) {
    std::vector<double> before(prices.size() + 1);  // sum of the prices before each op
    std::partial_sum(prices.begin(), prices.end(), before.begin() + 1);
    std::vector<bool> dropped(gaps_.size());
    for (std::size_t i = 0; i < gaps_.size(); ++i) {
      const double worth = static_cast<double>(gaps_[i].bytes) * (before[gaps_[i].to] - before[gaps_[i].from + 1]);
      dropped[i] = worth > costs_[i];
      rounds_dropping_[i] += dropped[i] ? 1 : 0;
    }
    return dropped;
  }

  /// Bytes by which each op is still above.
  std::vector<std::int64_t> left_by(const std::vector<bool>& dropped) const {
    std::vector<std::int64_t> change(excess_.size() + 1);
    for (std::size_t i = 0; i < gaps_.size(); ++i) {
      if (!dropped[i]) continue;
      change[gaps_[i].from + 1] -= static_cast<std::int64_t>(gaps_[i].bytes);
      change[gaps_[i].to] += static_cast<std::int64_t>(gaps_[i].bytes);
    }
    std::vector<std::int64_t> left = excess_;
    std::int64_t sum = 0;
    for (std::size_t op = 0; op < left.size(); ++op) left[op] += sum += change[op];
    return left;
  }

  /// Takes gaps in the order of the rounds that dropped them until all fits, and gives back those that are not needed.
  void cover(std::vector<bool>& chosen) const {
    std::vector<std::uint32_t> order(gaps_.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto cost_a_byte = [&](std::uint32_t i) { return costs_[i] / static_cast<double>(gaps_[i].bytes); };
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(-rounds_dropping_[a], cost_a_byte(a)) < std::pair(-rounds_dropping_[b], cost_a_byte(b));
    });
    SegmentTree left(excess_);
    const auto relieve = [&](std::uint32_t i, std::int64_t sign) {
      left.add(gaps_[i].from + 1, gaps_[i].to, -sign * static_cast<std::int64_t>(gaps_[i].bytes));
    };
    for (const std::uint32_t i : order) {
      if (left.largest() <= 0) break;
      if (!left.find_last_above(gaps_[i].from + 1, gaps_[i].to, 0)) continue;
      chosen[i] = true;
      relieve(i, 1);
    }
    std::ranges::stable_sort(order, std::greater<>(), [&](std::uint32_t i) { return costs_[i]; });
    for (const std::uint32_t i : order) {
      const auto most_that_fits = -static_cast<std::int64_t>(gaps_[i].bytes);
      if (!chosen[i] || left.find_last_above(gaps_[i].from + 1, gaps_[i].to, most_that_fits)) continue;
      chosen[i] = false;
      relieve(i, -1);
    }
  }

  const std::vector<Droppable>& gaps_;
  const std::vector<double>& costs_;
  const std::vector<std::int64_t>& excess_;
  std::vector<int> rounds_dropping_;
};

/// The integer program for a window.
class Program {
 public:
  Program(const Groundwork& groundwork, const Recomputation& recomputation, Arguments arguments)
      : groundwork_(groundwork), recomputation_(recomputation), arguments_(arguments) {
    costs_.reserve(recomputation.droppable().size());
    for (const Droppable& gap : recomputation.droppable()) {
      const Nanoseconds cost = arguments == Arguments::kFreed ? gap.cost : gap.shared;
      costs_.push_back(std::chrono::duration<double>(cost).count() + 1e-9);
    }
  }

  /// The replays of a solution for so many bytes, as far as there is one. What rebuilding needs where it takes place is
  /// found by rewriting the window, and the next solution must find room for it.
  std::vector<Replay> solve(std::uint64_t target) const {
    std::vector<std::int64_t> excess = above(target, [&](std::uint32_t op) { return groundwork_.liveness.live(op); });
    Solution best;
    for (int round = 0; round < kCorrections && best.over > 0; ++round) {
      const std::vector<bool> chosen = Covering(recomputation_.droppable(), costs_, excess).solve();
      std::vector<Drop> dropped;
      dropped.reserve(chosen.size());
      for (const bool is_dropped : chosen) dropped.push_back(is_dropped ? Drop::kAgain : Drop::kKept);
      std::vector<std::int64_t> over;
      Solution next = judge(std::move(dropped), target, &over);
      for (std::size_t op = 0; op < over.size(); ++op) excess[op] += std::max<std::int64_t>(over[op], 0);
      if (next.over < best.over) best = std::move(next);
    }
    if (best.over <= 0) rebuild_once(best, target);
    return std::move(best.replays);
  }

 private:
  static constexpr int kCorrections = 12;
  static constexpr std::size_t kMostTries = 200;

  struct Solution {
    std::vector<Drop> dropped = {};
    std::vector<Replay> replays = {};
    Nanoseconds cost{0};
    std::int64_t over = std::numeric_limits<std::int64_t>::max();  // bytes above the target, where these are most
  };

  /// `over`: gets the bytes above the target by op; empty if there are too many replays.
  Solution judge(std::vector<Drop> dropped, std::uint64_t target, std::vector<std::int64_t>* over = nullptr) const {
    Solution solution{.dropped = std::move(dropped)};
    auto replays = recomputation_.replays(solution.dropped, kMostReplaysAnOp * groundwork_.liveness.ops(), arguments_);
    if (!replays) return solution;
    solution.replays = std::move(*replays);
    for (const Replay& replay : solution.replays) solution.cost += groundwork_.op_times[replay.op];
    std::vector<std::int64_t> bytes = above(target, live_with(solution.replays));
    solution.over = bytes.empty() ? 0 : std::ranges::max(bytes);
    if (over != nullptr) *over = std::move(bytes);
    return solution;
  }

  /// Rebuilds storages once instead of for each replay that needs them, as long as that fits: the most expensive first,
  /// several at a time.
  void rebuild_once(Solution& solution, std::uint64_t target) const {
    std::vector<std::uint32_t> again;
    for (std::uint32_t i = 0; i < solution.dropped.size(); ++i)
      if (solution.dropped[i] == Drop::kAgain) again.push_back(i);
    std::ranges::stable_sort(again, std::greater<>(), [&](std::uint32_t i) { return costs_[i]; });
    const std::size_t at_once = again.size() / kMostTries + 1;
    for (std::size_t first = 0; first < again.size(); first += at_once) {
      std::vector<Drop> dropped = solution.dropped;
      for (std::size_t i = first; i < std::min(first + at_once, again.size()); ++i) dropped[again[i]] = Drop::kOnce;
      Solution next = judge(std::move(dropped), target);
      if (next.over <= 0 && next.cost <= solution.cost) solution = std::move(next);
    }
  }

  template <typename Live>
  std::vector<std::int64_t> above(std::uint64_t target, Live&& live) const {
    std::vector<std::int64_t> bytes;
    bytes.reserve(groundwork_.liveness.ops());
    for (std::uint32_t op = 0; op < groundwork_.liveness.ops(); ++op)
      bytes.push_back(static_cast<std::int64_t>(live(op).count()) - static_cast<std::int64_t>(target));
    return bytes;
  }

  /// By op of the window: the most bytes that are live during it and the replays before it.
  std::function<base::Bytes(std::uint32_t)> live_with(const std::vector<Replay>& replays) const {
    const plan::Rewriting rewriting = plan::rewrite(groundwork_.problem.trace, replays).value();
    const Liveness liveness(rewriting.trace);
    std::vector<base::Bytes> most(groundwork_.liveness.ops());
    base::Bytes of_replays;
    for (std::uint32_t op = 0; op < liveness.ops(); ++op) {
      of_replays = std::max(of_replays, liveness.live(op));
      if (rewriting.entries[op].replayed) continue;
      most[rewriting.entries[op].op] = std::exchange(of_replays, {});
    }
    return [most = std::move(most)](std::uint32_t op) { return most[op]; };
  }

  const Groundwork& groundwork_;
  const Recomputation& recomputation_;
  Arguments arguments_;
  std::vector<double> costs_;  // seconds, by number of droppable()
};

class MonetPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    require_no_boundary(problem, "monet");
    const Groundwork groundwork(problem);
    if (groundwork.is_below_floor()) return groundwork.below_floor();
    const Recomputation recomputation(problem.trace, groundwork.liveness, groundwork.op_times);
    Quickest quickest;
    for (const Arguments arguments : {Arguments::kFreed, Arguments::kKeptForMore}) {
      const Program program(groundwork, recomputation, arguments);
      const auto rule = [&](std::uint64_t target) { return Decisions{.replays = program.solve(target)}; };
      quickest.offer(plan_for_less(problem, "monet", rule));
    }
    return quickest.take();
  }
};

}  // namespace

std::unique_ptr<Planner> make_monet_planner() { return std::make_unique<MonetPlanner>(); }

}  // namespace tensorpager::planning
