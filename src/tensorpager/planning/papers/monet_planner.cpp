// Shah, Wu, Mohan, Chidambaram, Kraehenbuehl: Memory Optimization for Deep Networks (MONeT), 2021.
//
// An integer program says what the forward pass keeps and what the backward pass rebuilds: the least sum of
// recomputations such that the memory of every op fits. Nothing is swapped.
//
// The paper solves it by a commercial solver in hours. Here it is solved approximately by Lagrangian relaxation: each
// op has a price for a byte above the budget, a storage is dropped if it costs less to rebuild than the prices of the
// ops that it is idle at, and prices rise where too much is kept. What most rounds drop is taken until all fits, and
// what turns out not to be needed is kept after all. That replays need room is met as in the other planners here: the
// program is solved for less. The paper's choices among implementations of an op, which trade workspace for time, are
// not made: a trace has one.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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
  Covering(const std::vector<Droppable>& gaps, std::vector<double> costs, std::vector<std::int64_t> excess)
      : gaps_(gaps), costs_(std::move(costs)), excess_(std::move(excess)) {}

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
  std::vector<double> costs_;
  std::vector<std::int64_t> excess_;
  std::vector<int> rounds_dropping_;
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
      for (const Drop drop : {Drop::kOnce, Drop::kAgain}) {
        quickest.offer(plan_for_less(problem, "monet", [&](std::uint64_t target) {
          const std::vector<Drop> dropped = drops(groundwork, recomputation, target, arguments, drop);
          const std::size_t most = kMostReplaysAnOp * groundwork.liveness.ops();
          auto replays = recomputation.replays(dropped, most, arguments);
          return Decisions{.replays = replays ? std::move(*replays) : std::vector<Replay>()};
        }));
      }
    }
    return quickest.take();
  }

 private:
  /// By number of droppable().
  static std::vector<Drop> drops(const Groundwork& groundwork, const Recomputation& recomputation, std::uint64_t target,
                                 Arguments arguments, Drop drop) {
    const auto& gaps = recomputation.droppable();
    std::vector<double> costs;
    costs.reserve(gaps.size());
    for (const Droppable& gap : gaps) {
      const Nanoseconds cost = arguments == Arguments::kFreed ? gap.cost : gap.shared;
      costs.push_back(std::chrono::duration<double>(cost).count() + 1e-9);
    }
    std::vector<std::int64_t> excess;
    excess.reserve(groundwork.liveness.ops());
    for (std::uint32_t op = 0; op < groundwork.liveness.ops(); ++op)
      excess.push_back(static_cast<std::int64_t>(groundwork.liveness.live(op).count()) -
                       static_cast<std::int64_t>(target));
    const std::vector<bool> chosen = Covering(gaps, std::move(costs), std::move(excess)).solve();
    std::vector<Drop> dropped;
    dropped.reserve(chosen.size());
    for (const bool is_dropped : chosen) dropped.push_back(is_dropped ? drop : Drop::kKept);
    return dropped;
  }
};

}  // namespace

std::unique_ptr<Planner> make_monet_planner() { return std::make_unique<MonetPlanner>(); }

}  // namespace tensorpager::planning
