#include "tensorpager/planning/attempt.h"

#include <algorithm>

#include "tensorpager/planning/online.h"
#include "tensorpager/planning/packing/ejection.h"

namespace tensorpager::planning {
namespace {

/// Times and tails settle in two; the best of them is taken.
constexpr int kScheduleRounds = 3;
constexpr double kShorterTails[] = {0.8, 0.4, 0};
/// Settling looks at each two blocks no more often: few blocks have been tried in all ways soon.
constexpr std::uint64_t kLooksAPair = 50;
/// The quickest plans that are: the one that is quickest after it counts.
constexpr std::size_t kSettled = 3;
/// A plan that wastes a percent less may take a thousandth longer.
constexpr double kTimeForWaste = 0.1;
/// Of what is taken: less waste than this part is not worth looking for.
constexpr std::uint64_t kEnoughSettled = 200;

}  // namespace

Nanoseconds step_of(const std::vector<Row>& rows, const std::vector<Nanoseconds>& op_times, const Machine& planned_with,
                    const Machine& own) {
  return time_rows(rows, op_times, planned_with).step + time_rows(rows, op_times, own).step;
}

TransferCosts costs_of(const Machine& machine) {
  const auto handling = std::chrono::duration<double>(machine.out.handling + machine.in.handling).count();
  const double out = 1 / machine.out.fastest();
  const double in = 1 / machine.in.fastest();
  return {.overhead = static_cast<std::uint64_t>(handling / (out + in)), .both_ways = (out + in) / out};
}

void Candidates::offer(Candidate candidate) {
  const auto after = std::ranges::upper_bound(kept_, candidate.step, {}, &Candidate::step);
  kept_.insert(after, std::move(candidate));
  if (kept_.size() > kSettled) kept_.pop_back();
}

Attempt::Attempt(const Groundwork& groundwork, const Boundary* boundary, TransferCosts costs, Rule rule)
    : groundwork_(groundwork),
      boundary_(boundary),
      costs_(costs),
      rule_(rule),
      machine_(with_link_share(groundwork.problem.machine, groundwork.problem.options.link_share)),
      techniques_(groundwork.problem.options.techniques),
      effort_(techniques_.packing),
      ops_(groundwork.liveness.ops()) {
  effort_.looks = 0;
}

std::vector<Interval> Attempt::schedule(std::uint64_t space) const {
  std::vector<Interval> intervals =
      make_intervals(groundwork_.liveness, choose_evictions(space), techniques_.early_page_outs);
  if (boundary_ != nullptr) fix_boundary(intervals);
  std::vector<Interval> best = intervals;
  std::vector<Nanoseconds> starts = groundwork_.starts;
  Nanoseconds best_step = Nanoseconds::max();
  for (int round = 0; round < kScheduleRounds; ++round) {
    if (techniques_.prefetch) schedule_page_ins(intervals, space, starts, machine_.in);
    std::vector<std::uint32_t> ticket_of;
    std::vector<Row> rows = make_rows(intervals, ops_, &ticket_of);
    wait_by_bytes(rows, ops_, space);
    const Timing timing = time_rows(rows, groundwork_.op_times, machine_);
    if (techniques_.tails) expect_tails(intervals, rows, ticket_of, timing, Tails::kUntilCopied);
    starts = timing.starts;
    if (timing.step >= best_step) continue;
    best_step = timing.step;
    best = intervals;
    if (ticket_of.empty() || std::ranges::all_of(ticket_of, [](std::uint32_t t) { return t == 0; })) break;
  }
  return best;
}

std::uint64_t Attempt::place(std::vector<Interval>& intervals, double share) {
  for (Interval& interval : intervals) {
    const auto shortened = [&](std::int64_t stretch) {
      return static_cast<std::int64_t>(static_cast<double>(stretch) * share);
    };
    interval.begin = interval.need - shortened(interval.need - interval.begin);
    interval.release = interval.end + shortened(interval.release - interval.end);
    interval.copied = interval.end + shortened(interval.copied - interval.end);
  }
  return pack(intervals, groundwork_.starts, groundwork_.space(), effort_);
}

bool Attempt::place_over_transfers(const std::vector<Interval>& scheduled, Candidates& found) {
  if (!techniques_.over_transfers) return false;
  bool fits = false;
  for (const PackingOrder by : {PackingOrder::kSize, PackingOrder::kArea, PackingOrder::kBegin}) {
    std::vector<Interval> intervals = scheduled;
    if (!pack_over_transfers(intervals, groundwork_.starts, groundwork_.space(), by, effort_)) continue;
    fits = true;
    delay_page_ins(intervals, ops_);
    Candidate done = finish(std::move(intervals), Technique::kOverTransfers);
    place_again_over_transfers(scheduled, done, by, found);
    found.offer(std::move(done));
  }
  return fits;
}

void Attempt::place_with_shorter_tails(const std::vector<Interval>& scheduled, Candidates& found) {
  if (!techniques_.shorter_tails) return;
  for (const double share : kShorterTails) {
    std::vector<Interval> intervals = scheduled;
    if (place(intervals, share) > groundwork_.space()) continue;
    found.offer(finish(std::move(intervals), Technique::kShorterTails));
    return;
  }
}

Candidate Attempt::finish(std::vector<Interval> intervals, Technique technique) const {
  Candidate done{
      .rows = make_rows(intervals, ops_), .step = {}, .intervals = std::move(intervals), .technique = technique};
  wait_by_offsets(done.rows, ops_);
  done.step = step_of(done.rows);
  return done;
}

Nanoseconds Attempt::step_by_bytes(const std::vector<Interval>& intervals) const {
  std::vector<Row> rows = make_rows(intervals, ops_);
  wait_by_bytes(rows, ops_, groundwork_.space());
  return step_of(rows);
}

Candidate Attempt::settle(Candidate best, std::uint64_t looks) const {
  if (!techniques_.compaction || !techniques_.packing.ejection || best.intervals.empty() ||
      best.intervals.size() > kMostSettled)
    return best;
  const std::uint64_t granule = groundwork_.problem.trace.granule.count();
  std::vector<Interval> intervals = with_tails(best, Tails::kUntilWaits);
  looks = std::min<std::uint64_t>(looks, kLooksAPair * intervals.size() * intervals.size());
  Ejection ejection(intervals, ops_);
  std::uint64_t low = most_taken(intervals, ops_);
  const std::uint64_t enough = std::max(low / kEnoughSettled, 2 * granule);
  std::uint64_t top = top_of(intervals);
  double best_cost = cost_of(best);
  while (looks > intervals.size() && top > low + enough) {
    const std::uint64_t target = low + (top - low) / 2 / granule * granule;
    bool is_better = false;
    for (const auto from : {Ejection::From::kWhereTheyAre, Ejection::From::kNowhere}) {
      std::vector<Interval> moved = intervals;
      std::uint64_t share = looks / 4;
      looks -= share;
      const bool fits = ejection.fit(moved, target, share, from);
      looks += share;
      if (!fits) continue;
      Candidate settled = finish(moved, best.technique);
      const double cost = cost_of(settled);
      if (cost > best_cost) continue;
      is_better = true;
      best = std::move(settled);
      best_cost = cost;
      intervals = std::move(moved);
      break;
    }
    if (is_better)
      top = top_of(intervals);
    else
      low = target;
  }
  return best;
}

double Attempt::cost_of(const Candidate& candidate) const {
  const std::vector<Interval> intervals = with_tails(candidate, Tails::kUntilWaits);
  const auto taken = static_cast<double>(most_taken(intervals, ops_));
  const double waste = taken > 0 ? static_cast<double>(top_of(intervals)) / taken - 1 : 0;
  return static_cast<double>(candidate.step.count()) * (1 + waste * kTimeForWaste);
}

std::optional<Candidate> Attempt::online() const {
  std::optional<Candidate> best;
  for (const Victim victim : {Victim::kFarthestNextUse, Victim::kLeastRecentlyUsed}) {
    auto candidate = online(victim);
    if (candidate && (!best || candidate->step < best->step)) best = std::move(candidate);
  }
  return best;
}

std::optional<Candidate> Attempt::online(Victim victim) const {
  const base::Bytes granule = groundwork_.problem.trace.granule;
  auto found = boundary_ != nullptr
                   ? place_online_within(groundwork_.liveness, groundwork_.space(), granule, *boundary_, victim)
                   : place_online(groundwork_.liveness, groundwork_.space(), granule, victim);
  if (!found) return std::nullopt;
  OnlinePlacement placed = std::move(*found);
  if (boundary_ != nullptr) fix_boundary(placed.intervals);
  const Technique technique =
      victim == Victim::kFarthestNextUse ? Technique::kOnlineByNextUse : Technique::kOnlineByRecency;
  Candidate best = finish(placed.intervals, technique);
  std::vector<Nanoseconds> starts = time_rows(best.rows, groundwork_.op_times, machine_).starts;
  for (int round = 0; round < kScheduleRounds && techniques_.prefetch; ++round) {
    schedule_placed_page_ins(placed.intervals, placed.earliest, starts, machine_.in);
    Candidate next = finish(placed.intervals, technique);
    starts = time_rows(next.rows, groundwork_.op_times, machine_).starts;
    if (next.step < best.step) best = std::move(next);
  }
  return best;
}

Nanoseconds Attempt::step_of(const std::vector<Row>& rows) const {
  return planning::step_of(rows, groundwork_.op_times, machine_, groundwork_.problem.machine);
}

std::uint64_t Attempt::looks_a_round(std::size_t intervals) const {
  return (techniques_.packing.looks + techniques_.packing.looks_each * intervals) / kFeedbackRounds;
}

void Attempt::place_again_over_transfers(std::vector<Interval> intervals, const Candidate& placed, PackingOrder by,
                                         Candidates& found) const {
  const std::vector<Interval> seen = with_tails(placed, Tails::kUntilCopied);
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    Interval& interval = intervals[i];
    const auto seen_after_end = [&](std::int64_t op) {
      return std::min(interval.end + op - seen[i].end, std::max(interval.end, interval.begin + ops_));
    };
    interval.release = seen_after_end(seen[i].release);
    interval.copied = seen_after_end(seen[i].copied);
  }
  PackingEffort effort = techniques_.packing;
  effort.looks = looks_a_round(intervals.size());
  if (!pack_over_transfers(intervals, groundwork_.starts, groundwork_.space(), by, effort)) return;
  delay_page_ins(intervals, ops_);
  found.offer(finish(std::move(intervals), Technique::kOverTransfersAgain));
}

std::vector<Interval> Attempt::with_tails(const Candidate& candidate, Tails until) const {
  std::vector<Interval> intervals = candidate.intervals;
  std::vector<std::uint32_t> ticket_of;
  (void)make_rows(intervals, ops_, &ticket_of);
  expect_tails(intervals, candidate.rows, ticket_of, time_rows(candidate.rows, groundwork_.op_times, machine_), until);
  return intervals;
}

Evictions Attempt::choose_evictions(std::uint64_t space) const {
  const Liveness& liveness = groundwork_.liveness;
  if (rule_ == Rule::kLongestIdle) return evict_longest_idle(liveness, space, groundwork_.starts);
  std::vector<bool> entry(liveness.storages());
  if (boundary_ != nullptr)
    std::transform(boundary_->begin(), boundary_->end(), entry.begin(),
                   [](const auto& offset) { return offset.has_value(); });
  else if (techniques_.wrap)
    return planning::choose_evictions(liveness, space, all_entries(liveness), WindowEnds::kFree, costs_);
  return planning::choose_evictions(liveness, space, entry, WindowEnds::kFixed, costs_);
}

void Attempt::fix_boundary(std::vector<Interval>& intervals) const {
  take_for_dirty(intervals);
  for (Interval& interval : intervals) {
    if (!interval.is_whole() && interval.end <= ops_) continue;
    interval.fixed = true;
    interval.offset = (*boundary_)[trace::index(interval.storage)].value();
  }
}

void Attempt::take_for_dirty(std::vector<Interval>& intervals) const {
  for (Interval& interval : intervals) {
    if (interval.end > ops_ && interval.leave == Leave::kDrop) interval.leave = Leave::kPageOut;
  }
}

}  // namespace tensorpager::planning
