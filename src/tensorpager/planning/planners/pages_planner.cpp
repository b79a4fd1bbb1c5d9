// Planned movement without recomputation, in four steps: which storages are below and when (eviction.h), when transfers
// begin and what waits for them (schedule.h), where blocks lie (packing.h), and waits again, by offsets.
//
// Packing needs a little more than the bytes. Where it needs more than there is, all is planned anew for less, and
// placed into what there is; then with shorter tails and later page-ins; at last online, which always fits (online.h).
#include <algorithm>
#include <optional>
#include <utility>

#include "tensorpager/planning/attempt.h"

namespace tensorpager::planning {
namespace {

/// Rows, in all rounds of feedback: fewer rounds are made where one takes long.
constexpr std::size_t kFeedbackWork = 600'000;
/// At least by so much less each time: by as little as packing lacks it would still lack a little. And at most by so
/// much: what does not fit may still be quicker, over transfers.
constexpr double kSmallestFeedbackStep = 0.98;
constexpr double kLargestFeedbackStep = 0.93;
/// Beyond so many it is a last resort only, as each eviction looks at all that is resident: where what was found takes
/// longer than bytes alone promised by more than this part.
constexpr std::uint32_t kOnlineOps = 2000;
constexpr int kFarOff = 4;
constexpr std::uint64_t kSettlingLooks = 2'000'000;  // for each of the quickest plans
constexpr std::uint64_t kLastLooks = 16'000'000;     // for the one that is taken
/// A round takes time. Offsets wait for fewer page-outs than bytes alone do: what they promise may be slower by this
/// part than the best plan, and still be quicker than it when it is placed.
constexpr int kPromiseMayBeat = 8;
/// Transfers are hidden as a rule; their CPU time never is.
constexpr std::uint64_t kOverheads[] = {0, 1, 8};

class PagesPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    if (problem.boundary != nullptr) return plan_within(problem);
    const Groundwork groundwork(problem);
    if (groundwork.is_below_floor()) return groundwork.below_floor();
    Candidate best = search(groundwork, nullptr).value();
    return groundwork.finish("pages", std::move(best.rows), best.technique);
  }

 private:
  /// The table's storages are there when the window begins and when it ends: as if its first and its last op used them.
  static base::Result<Plan, Infeasible> plan_within(const Problem& problem) {
    const Boundary boundary = offsets_in(*problem.boundary, problem.trace);
    trace::Trace trace = problem.trace;
    if (!trace.ops.empty()) {
      add_uses(trace.ops.front(), boundary);
      add_uses(trace.ops.back(), boundary);
    }
    const Problem inner{trace, problem.machine, problem.budget, problem.options, problem.boundary};
    const Groundwork groundwork(inner);
    if (groundwork.is_below_floor()) {
      const Liveness alone(problem.trace);
      Infeasible why = groundwork.below_floor();
      if (problem.budget < alone.floor()) return Infeasible{alone.floor() - problem.budget, alone.floor_op()};
      why.for_boundary = true;
      return why;
    }
    auto best = search(groundwork, &boundary);
    if (!best) return Infeasible{.short_by = {}, .op = 0, .for_boundary = true};
    return groundwork.finish("pages", std::move(best->rows), best->technique);
  }

  static void add_uses(trace::Op& op, const Boundary& boundary) {
    for (std::uint32_t i = 0; i < boundary.size(); ++i) {
      const StorageId id{i};
      const auto has = [&](const std::vector<StorageId>& list) { return std::ranges::find(list, id) != list.end(); };
      if (boundary[i] && !has(op.reads) && !has(op.births)) op.reads.push_back(id);
    }
  }

  /// Whether what transfers cost compute matters more than their bytes shows in the time of the whole only.
  static std::optional<Candidate> search(const Groundwork& groundwork, const Boundary* boundary) {
    Candidates candidates;
    TransferCosts costs = costs_of(groundwork.problem.machine);
    const std::uint64_t overhead = costs.overhead;
    for (const std::uint64_t times : kOverheads) {
      if (times != 0 && (overhead == 0 || !groundwork.problem.options.techniques.larger_first)) break;
      costs.overhead = times * overhead;
      search_with(groundwork, boundary, costs, Rule::kFarthestNextUse, candidates);
    }
    costs.overhead = 0;
    const Techniques& techniques = groundwork.problem.options.techniques;
    const bool has_free_ends = boundary == nullptr && techniques.wrap;
    if (techniques.longest_idle && has_free_ends && candidates.least_step() > 2 * groundwork.starts.back())
      search_with(groundwork, boundary, costs, Rule::kLongestIdle, candidates);
    const Attempt attempt(groundwork, boundary, costs);
    std::optional<Candidate> best;
    double best_cost = 0;
    for (Candidate& candidate : candidates.all()) {
      Candidate settled = attempt.settle(std::move(candidate), kSettlingLooks);
      const double cost = attempt.cost_of(settled);
      if (best && cost >= best_cost) continue;
      best = std::move(settled);
      best_cost = cost;
    }
    if (best) best = attempt.settle(std::move(*best), kLastLooks);
    return best;
  }

  static std::uint64_t share_of(std::uint64_t bytes, double share) {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * share);
  }

  static void search_with(const Groundwork& groundwork, const Boundary* boundary, TransferCosts costs, Rule rule,
                          Candidates& candidates) {
    Attempt attempt(groundwork, boundary, costs, rule);
    const std::uint64_t space = groundwork.space();
    const std::uint64_t least = (groundwork.liveness.floor() - groundwork.liveness.slab()).count();
    Candidates found;
    std::uint64_t planned = space;
    std::uint64_t lowest = space;
    std::uint64_t fitted = 0;             // the most that was planned for and fitted
    std::uint64_t too_much = UINT64_MAX;  // the least that did not
    Nanoseconds first_promise = Nanoseconds::max();
    std::size_t rounds = kFeedbackRounds;
    for (std::size_t round = 0; round < rounds && planned >= least; ++round) {
      const std::vector<Interval> scheduled = attempt.schedule(planned);
      rounds = std::clamp<std::size_t>(kFeedbackWork / std::max<std::size_t>(scheduled.size(), 1), 2, kFeedbackRounds);
      double scale = kSmallestFeedbackStep;
      const Nanoseconds promised = attempt.step_by_bytes(scheduled);
      if (round == 0) first_promise = promised;
      const auto may_be_quicker = [&] {
        return found.empty() || promised < found.least_step() + found.least_step() / kPromiseMayBeat;
      };
      if (may_be_quicker()) {
        attempt.allow_packing(scheduled.size());
        std::vector<Interval> intervals = scheduled;
        const std::uint64_t top = attempt.place(intervals, 1);
        if (top <= space) {
          fitted = std::max(fitted, planned);
          found.offer(attempt.finish(intervals, round == 0 ? Technique::kPacked : Technique::kPackedForLess));
        } else {
          too_much = std::min(too_much, planned);
        }
        const bool fits_over_transfers = may_be_quicker() && attempt.place_over_transfers(scheduled, found);
        if (round == 0 && top > space) attempt.place_with_shorter_tails(scheduled, found);
        if (top > space)
          scale = std::clamp(static_cast<double>(space) / static_cast<double>(top),
                             fits_over_transfers ? kLargestFeedbackStep : 0, kSmallestFeedbackStep);
      }
      if (!groundwork.problem.options.techniques.feedback || found.least_step() <= attempt.shortest_step()) break;
      if (fitted > 0 && scheduled.size() > kMostSettled) break;
      if (fitted > 0 && too_much != UINT64_MAX && fitted < share_of(too_much, kSmallestFeedbackStep)) {
        planned = fitted + (too_much - fitted) / 2;
      } else {
        planned = share_of(std::min(planned, lowest), scale);
        lowest = planned;
      }
    }
    // Where packing needed other means, deciding offsets with residency may be the better of the two. It knows nothing
    // of the overhead: once is enough.
    const bool is_far_off = !found.empty() && found.least_step() > first_promise + first_promise / kFarOff;
    const bool is_early = groundwork.problem.options.techniques.early_online &&
                          (is_far_off || (planned < space && groundwork.liveness.ops() <= kOnlineOps));
    if (costs.overhead == 0 && rule == Rule::kFarthestNextUse && (found.empty() || is_early)) {
      if (auto rows = attempt.online()) found.offer(std::move(*rows));
    }
    for (Candidate& rows : found.all()) candidates.offer(std::move(rows));
  }
};

}  // namespace

std::unique_ptr<Planner> make_pages_planner() { return std::make_unique<PagesPlanner>(); }

}  // namespace tensorpager::planning
