#include "tensorpager/planning/papers/completion.h"

#include <algorithm>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/planning/segment_tree.h"

namespace tensorpager::planning {
namespace {

constexpr int kRoundsOfTimes = 3;  // of page-ins by the times that follow from them

/// Steps by which more leaves the device where packing needs more than the bytes, or makes a plan slower than the bytes
/// promise by more than this part.
constexpr std::size_t kPackingSteps = 16;
constexpr int kPackingMayCost = 32;
/// A rule is asked so often, each time for less by what lacked, and by at least so much.
constexpr int kMostRounds = 16;
constexpr double kLess = 0.98;

plan::Rewriting with_replays(const trace::Trace& trace, const std::vector<Replay>& replays) {
  auto rewritten = plan::rewrite(trace, replays);
  if (!rewritten) throw base::InvalidArgument(plan::describe(rewritten.error(), replays));
  return std::move(rewritten.value());
}

/// The absences by the ops of the rewritten trace.
std::vector<Absence> rewritten(std::vector<Absence> absences, const plan::Rewriting& rewriting) {
  std::vector<std::uint32_t> with_replays;  // by op of the trace
  for (std::uint32_t op = 0; op < rewriting.entries.size(); ++op) {
    if (!rewriting.entries[op].replayed) with_replays.push_back(op);
  }
  for (Absence& absence : absences) absence.after = with_replays.at(absence.after);
  return absences;
}

}  // namespace

Completion::Completion(const Problem& problem, const Decisions& decisions)
    : rewriting_(with_replays(problem.trace, decisions.replays)),
      problem_{rewriting_.trace, problem.machine, problem.budget, problem.options},
      groundwork_(problem_),
      reserve_(groundwork_.reserve),
      absences_(rewritten(decisions.absences, rewriting_)),
      replays_(decisions.replays),
      page_ins_(decisions.page_ins),
      page_outs_(decisions.page_outs) {
  if (groundwork_.is_below_floor()) {
    excess_ = exceeding(groundwork_.below_floor().short_by.count(), groundwork_.below_floor().op);
    return;
  }
  groundwork_.reserve = {};  // all is planned for; what is left over is the reserve
  attempt_.emplace(groundwork_, nullptr, costs_of(problem.machine));
  intervals_ = make_intervals(groundwork_.liveness, evictions(), true);
  excess_ = find_excess();
  if (!excess_) schedule();
}

Infeasible Completion::exceeding(std::uint64_t bytes, std::uint32_t op) const {
  return {.short_by = base::Bytes(bytes), .op = rewriting_.entries[op].op};
}

Evictions Completion::evictions() const {
  const Liveness& liveness = groundwork_.liveness;
  Evictions evictions{.after_use = std::vector<std::int64_t>(liveness.all_uses(), kNever),
                      .unused_resident = std::vector<bool>(liveness.storages(), true)};
  for (const Absence& absence : absences_) {
    const auto uses = liveness.uses(absence.storage);
    const auto use = std::ranges::find(uses, absence.after, &Use::op);
    if (use == uses.end())
      throw base::InvalidArgument("storage " + std::to_string(trace::index(absence.storage)) +
                                  " cannot leave after op " + std::to_string(absence.after) +
                                  ", which does not use it");
    const std::size_t number = liveness.first_use(absence.storage) + static_cast<std::size_t>(use - uses.begin());
    evictions.after_use[number] = std::int64_t{absence.after} + 1;
  }
  return evictions;
}

std::optional<Infeasible> Completion::find_excess() const {
  const std::int64_t window = ops();
  SegmentTree charged(ops());
  const auto charge = [&](std::int64_t begin, std::int64_t end, std::uint64_t bytes) {
    charged.add(static_cast<std::size_t>(begin), static_cast<std::size_t>(end), static_cast<std::int64_t>(bytes));
  };
  for (const Interval& interval : intervals_) {
    charge(interval.need, std::min(interval.end, window), interval.bytes);
    if (interval.end > window) charge(0, interval.end - window, interval.bytes);
  }
  const std::int64_t excess = charged.largest() - static_cast<std::int64_t>(groundwork_.space());
  if (excess <= 0) return std::nullopt;
  return exceeding(static_cast<std::uint64_t>(excess), static_cast<std::uint32_t>(charged.first_largest()));
}

void Completion::schedule() {
  const std::uint64_t space = groundwork_.space();
  const Machine machine = with_link_share(problem_.machine, problem_.options.link_share);
  std::vector<Interval> best;
  Nanoseconds best_step = Nanoseconds::max();
  std::vector<Nanoseconds> starts = groundwork_.starts;
  for (int round = 0; round < kRoundsOfTimes; ++round) {
    if (page_ins_ == PageIns::kOneAhead)
      schedule_page_ins_one_ahead(intervals_, space, ops());
    else
      schedule_page_ins(intervals_, space, starts, machine.in);
    std::vector<std::uint32_t> ticket_of;
    std::vector<Row> rows = make_rows(intervals_, ops(), &ticket_of);
    wait_by_bytes(rows, ops(), space);
    wait_in_step(rows);
    const Timing timing = time_rows(rows, groundwork_.op_times, machine);
    expect_tails(intervals_, rows, ticket_of, timing, Tails::kUntilCopied);
    starts = timing.starts;
    if (timing.step >= best_step) continue;
    best_step = timing.step;
    best = intervals_;
  }
  intervals_ = std::move(best);
}

void Completion::wait_in_step(std::vector<Row>& rows) const {
  if (page_outs_ != PageOuts::kInStep) return;
  std::vector<std::uint32_t> leaving;  // ops that storages leave after
  leaving.reserve(absences_.size());
  for (const Absence& absence : absences_) leaving.push_back(absence.after);
  std::ranges::sort(leaving);
  leaving.erase(std::ranges::unique(leaving).begin(), leaving.end());
  const std::vector<std::uint32_t> page_outs = page_outs_of(rows);
  std::uint32_t tickets = 0;  // that left until an op of `leaving`
  std::size_t next = 0;       // of the ops that are `leaving`
  for (Row& row : rows) {
    while (next + 1 < leaving.size() && leaving[next + 1] < row.begin) {
      while (tickets < page_outs.size() && rows[page_outs[tickets]].end <= leaving[next] + 1) ++tickets;
      ++next;
    }
    // A page-in would wait in its queue.
    if (row.fill == Fill::kBorn) row.wait = std::max(row.wait, tickets);
  }
}

Nanoseconds Completion::step_by_bytes() const {
  std::vector<Row> rows = make_rows(intervals_, ops());
  wait_by_bytes(rows, ops(), groundwork_.space());
  wait_in_step(rows);
  return planning::step_of(rows, groundwork_.op_times, with_link_share(problem_.machine, problem_.options.link_share),
                           problem_.machine);
}

base::Result<Plan, Infeasible> Completion::plan(const std::string& planner) const {
  if (excess_) return *excess_;
  Attempt attempt = *attempt_;
  attempt.allow_packing(intervals_.size());
  Candidates found;
  std::vector<Interval> intervals = intervals_;
  const std::uint64_t top = attempt.place(intervals, 1);
  if (top <= groundwork_.space()) {
    found.offer(attempt.finish(std::move(intervals), Technique::kNone));
  } else {
    attempt.place_over_transfers(intervals_, found);
    attempt.place_with_shorter_tails(intervals_, found);
  }
  if (found.empty()) return exceeding(top - groundwork_.space(), groundwork_.liveness.need_op());
  std::vector<Row> rows = std::move(found.all().front().rows);
  wait_in_step(rows);
  Plan plan = groundwork_.finish(planner, std::move(rows));
  plan.replays = replays_;
  plan.reserve = std::min(reserve_, plan.budget - plan.slab - plan.top());
  return plan;
}

void Quickest::offer(base::Result<Plan, Infeasible> found) {
  const Plan* const best = plan();
  if (!found_ || (found && (best == nullptr || found->predicted.step < best->predicted.step)))
    found_ = std::move(found);
}

base::Result<Plan, Infeasible> plan_with_first(const Problem& problem, const std::string& planner, std::size_t most,
                                               const std::function<Decisions(std::size_t)>& rules) {
  std::size_t low = 0;
  std::size_t high = most + 1;  // fits, unless it is beyond the last
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (middle <= most && Completion(problem, rules(middle)).excess())
      low = middle + 1;
    else
      high = middle;
  }
  const std::size_t step = std::max<std::size_t>(most / kPackingSteps, 1);
  Quickest quickest;
  Nanoseconds promised = Nanoseconds::max();  // twice, as Candidate::step
  for (std::size_t next = std::min(low, most);; next = std::min(next + step, most)) {
    const Completion completion(problem, rules(next));
    if (!completion.excess()) promised = std::min(promised, completion.step_by_bytes());
    quickest.offer(completion.plan(planner));
    const Plan* const best = quickest.plan();
    const bool is_as_promised = best != nullptr && 2 * best->predicted.step <= promised + promised / kPackingMayCost;
    if (is_as_promised || next == most) return quickest.take();
  }
}

base::Result<Plan, Infeasible> plan_for_less(const Problem& problem, const std::string& planner,
                                             const std::function<Decisions(std::uint64_t)>& rule) {
  std::uint64_t target = problem.budget.count();
  for (int round = 1;; ++round) {
    auto found = Completion(problem, rule(target)).plan(planner);
    if (found || round == kMostRounds) return found;
    const auto less = static_cast<std::uint64_t>(static_cast<double>(target) * kLess);
    target = std::min(less, target - std::min(target, found.error().short_by.count()));
  }
}

}  // namespace tensorpager::planning
