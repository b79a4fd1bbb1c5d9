// Planned movement without recomputation, in four steps: which storages are below and when (eviction.h), when transfers
// begin and what waits for them (schedule.h), where blocks lie (packing.h), and waits again, by offsets.
//
// Packing needs a little more than the bytes. Where it needs more than there is, all is planned anew for less, and
// placed into what there is; then with shorter tails and later page-ins; at last online, which always fits (online.h).
#include <algorithm>
#include <optional>
#include <utility>

#include "tensorpager/plan/boundary.h"
#include "tensorpager/plan/ejection.h"
#include "tensorpager/plan/online.h"
#include "tensorpager/plan/planner.h"
#include "tensorpager/plan/schedule.h"

namespace tensorpager::plan {
namespace {

/// Plans for less, before other means are tried: so many, and fewer where a round takes long.
constexpr std::size_t kFeedbackRounds = 8;
constexpr std::size_t kFeedbackWork = 600'000;  // rows, in all rounds
/// At least by so much less each time: by as little as packing lacks it would still lack a little. And at most by so
/// much: what does not fit may still be quicker, over transfers.
constexpr double kSmallestFeedbackStep = 0.98;
constexpr double kLargestFeedbackStep = 0.93;
/// Beyond so many it is a last resort only: each eviction looks at all that is resident.
constexpr std::uint32_t kOnlineOps = 2000;
/// Times and tails settle in two; the best of them is taken.
constexpr int kScheduleRounds = 3;
constexpr double kShorterTails[] = {0.8, 0.4, 0};
/// Plans of more blocks are not settled: a pass takes the square of them.
constexpr std::size_t kMostSettled = 4000;
constexpr std::uint64_t kSettlingLooks = 2'000'000;  // for each plan
constexpr std::uint64_t kLastLooks = 16'000'000;     // for the one that is taken
/// And no more than so many for each two blocks: few blocks have been tried in all ways soon.
constexpr std::uint64_t kLooksAPair = 50;
/// The quickest plans that are: the one that is quickest after it counts.
constexpr std::size_t kSettled = 3;
/// A round takes time. Offsets wait for fewer page-outs than bytes alone do: what they promise may be slower by this
/// part than the best plan, and still be quicker than it when it is placed.
constexpr int kPromiseMayBeat = 8;
/// A plan that wastes a percent less may take a thousandth longer.
constexpr double kTimeForWaste = 0.1;
/// Of what is taken: less waste than this part is not worth looking for.
constexpr std::uint64_t kEnoughSettled = 200;
/// Transfers are hidden as a rule, and handling never is.
constexpr std::uint64_t kOverheads[] = {0, 1, 8};

struct Candidate {
  std::vector<Row> rows;
  Nanoseconds step;  // with the links that are planned with, and with the machine's: the sum
  std::vector<Interval> intervals;
};

/// The quickest few plans.
class Candidates {
 public:
  void offer(Candidate rows) {
    const auto after = std::ranges::upper_bound(kept_, rows.step, {}, &Candidate::step);
    kept_.insert(after, std::move(rows));
    if (kept_.size() > kSettled) kept_.pop_back();
  }
  bool empty() const { return kept_.empty(); }
  Nanoseconds least_step() const { return kept_.empty() ? Nanoseconds::max() : kept_.front().step; }
  std::vector<Candidate>& all() { return kept_; }

 private:
  std::vector<Candidate> kept_;  // by step
};

class Attempt {
 public:
  /// `overhead`: see `choose_evictions`.
  Attempt(const Groundwork& groundwork, const Boundary* boundary, std::uint64_t overhead)
      : groundwork_(groundwork),
        boundary_(boundary),
        overhead_(overhead),
        machine_(with_link_share(groundwork.problem.machine, groundwork.problem.options.link_share)),
        techniques_(groundwork.problem.options.techniques),
        effort_(techniques_.packing),
        ops_(groundwork.liveness.ops()) {
    effort_.looks = 0;
  }

  /// One round's share of the effort is added to what is left.
  void allow_packing(std::size_t intervals) { effort_.looks += looks_a_round(intervals); }

  /// By bytes alone, within `space`.
  std::vector<Interval> schedule(std::uint64_t space) const {
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

  /// Tails and page-ins under way take their blocks for `share` of the time expected.
  std::uint64_t place(std::vector<Interval>& intervals, double share) {
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

  /// With tails and page-ins under way given up where there is no room for them; whether that fits.
  bool place_over_transfers(const std::vector<Interval>& scheduled, Candidates& found) {
    bool fits = false;
    for (const PackingOrder by : {PackingOrder::kSize, PackingOrder::kArea, PackingOrder::kBegin}) {
      std::vector<Interval> intervals = scheduled;
      if (!pack_over_transfers(intervals, groundwork_.starts, groundwork_.space(), by, effort_)) continue;
      fits = true;
      delay_page_ins(intervals, ops_);
      Candidate done = finish(std::move(intervals));
      place_again_over_transfers(scheduled, done, by, found);
      found.offer(std::move(done));
    }
    return fits;
  }

  void place_with_shorter_tails(const std::vector<Interval>& scheduled, Candidates& found) {
    for (const double share : kShorterTails) {
      std::vector<Interval> intervals = scheduled;
      if (place(intervals, share) > groundwork_.space()) continue;
      found.offer(finish(std::move(intervals)));
      return;
    }
  }

  Candidate finish(std::vector<Interval> intervals) const {
    Candidate done{.rows = make_rows(intervals, ops_), .step = {}, .intervals = std::move(intervals)};
    wait_by_offsets(done.rows, ops_);
    done.step = step_of(done.rows);
    return done;
  }

  /// With nothing to wait for.
  Nanoseconds shortest_step() const { return 2 * groundwork_.starts.back(); }

  /// Were all of the space one range of bytes: what packing may come to.
  Nanoseconds step_by_bytes(const std::vector<Interval>& intervals) const {
    std::vector<Row> rows = make_rows(intervals, ops_);
    wait_by_bytes(rows, ops_, groundwork_.space());
    return step_of(rows);
  }

  /// Blocks closer together, where the time that it takes is worth it. They are charged until a wait covers their
  /// page-out, which other offsets may put off; then the plan may even be quicker.
  Candidate settle(Candidate best, std::uint64_t looks) const {
    if (!techniques_.packing.ejection || best.intervals.empty() || best.intervals.size() > kMostSettled) return best;
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
        Candidate settled = finish(moved);
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

  /// In the unit of its step: the time, and for what of the space it wastes.
  double cost_of(const Candidate& candidate) const {
    const std::vector<Interval> intervals = with_tails(candidate, Tails::kUntilWaits);
    const auto taken = static_cast<double>(most_taken(intervals, ops_));
    const double waste = taken > 0 ? static_cast<double>(top_of(intervals)) / taken - 1 : 0;
    return static_cast<double>(candidate.step.count()) * (1 + waste * kTimeForWaste);
  }

  /// Nothing where a boundary table does not place.
  std::optional<Candidate> online() const {
    const base::Bytes granule = groundwork_.problem.trace.granule;
    auto found = boundary_ != nullptr
                     ? place_online_within(groundwork_.liveness, groundwork_.space(), granule, *boundary_)
                     : place_online(groundwork_.liveness, groundwork_.space(), granule, Victim::kFarthestNextUse);
    if (!found) return std::nullopt;
    OnlinePlacement placed = std::move(*found);
    if (boundary_ != nullptr) fix_boundary(placed.intervals);
    Candidate best = finish(placed.intervals);
    std::vector<Nanoseconds> starts = time_rows(best.rows, groundwork_.op_times, machine_).starts;
    for (int round = 0; round < kScheduleRounds && techniques_.prefetch; ++round) {
      schedule_placed_page_ins(placed.intervals, placed.earliest, starts, machine_.in);
      Candidate next = finish(placed.intervals);
      starts = time_rows(next.rows, groundwork_.op_times, machine_).starts;
      if (next.step < best.step) best = std::move(next);
    }
    return best;
  }

 private:
  /// Links that keep their rate are as likely as those that do not.
  Nanoseconds step_of(const std::vector<Row>& rows) const {
    return time_rows(rows, groundwork_.op_times, machine_).step +
           time_rows(rows, groundwork_.op_times, groundwork_.problem.machine).step;
  }

  std::uint64_t looks_a_round(std::size_t intervals) const {
    return (techniques_.packing.looks + techniques_.packing.looks_each * intervals) / kFeedbackRounds;
  }

  /// With the tails that page-outs have where they are placed: bytes alone foretell others. It has an effort of its
  /// own, for where the first plan fits the next matters more.
  void place_again_over_transfers(std::vector<Interval> intervals, const Candidate& placed, PackingOrder by,
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
    found.offer(finish(std::move(intervals)));
  }

  /// As its waits by offsets and its own times say.
  std::vector<Interval> with_tails(const Candidate& candidate, Tails until) const {
    std::vector<Interval> intervals = candidate.intervals;
    std::vector<std::uint32_t> ticket_of;
    (void)make_rows(intervals, ops_, &ticket_of);
    expect_tails(intervals, candidate.rows, ticket_of, time_rows(candidate.rows, groundwork_.op_times, machine_),
                 until);
    return intervals;
  }

  Evictions choose_evictions(std::uint64_t space) const {
    const Liveness& liveness = groundwork_.liveness;
    std::vector<bool> entry(liveness.storages());
    if (boundary_ != nullptr)
      std::transform(boundary_->begin(), boundary_->end(), entry.begin(),
                     [](const auto& offset) { return offset.has_value(); });
    else if (techniques_.wrap)
      return plan::choose_evictions(liveness, space, all_entries(liveness), WindowEnds::kFree, overhead_);
    return plan::choose_evictions(liveness, space, entry, WindowEnds::kFixed, overhead_);
  }

  void fix_boundary(std::vector<Interval>& intervals) const {
    take_for_dirty(intervals);
    for (Interval& interval : intervals) {
      if (!interval.is_whole() && interval.end <= ops_) continue;
      interval.fixed = true;
      interval.offset = (*boundary_)[trace::index(interval.storage)].value();
    }
  }

  /// What comes from the boundary: a window of another class may have written it.
  void take_for_dirty(std::vector<Interval>& intervals) const {
    for (Interval& interval : intervals) {
      if (interval.end > ops_ && interval.leave == Leave::kDrop) interval.leave = Leave::kPageOut;
    }
  }

  const Groundwork& groundwork_;
  const Boundary* boundary_;  // null: whatever is best
  std::uint64_t overhead_;
  Machine machine_;
  const Techniques& techniques_;
  PackingEffort effort_;  // what is left of it
  std::uint32_t ops_;
};

class PagesPlanner final : public Planner {
 public:
  base::Result<Plan, Infeasible> plan(const Problem& problem) const override {
    if (problem.boundary != nullptr) return plan_within(problem);
    const Groundwork groundwork(problem);
    if (groundwork.is_below_floor()) return groundwork.below_floor();
    return groundwork.finish("pages", search(groundwork, nullptr).value().rows);
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
    const auto rows = search(groundwork, &boundary);
    if (!rows) return Infeasible{.short_by = {}, .op = 0, .for_boundary = true};
    return groundwork.finish("pages", rows->rows);
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
    const std::uint64_t overhead = overhead_of(groundwork.problem.machine);
    for (const std::uint64_t times : kOverheads) {
      if (times != 0 && (overhead == 0 || !groundwork.problem.options.techniques.larger_first)) break;
      search_with(groundwork, boundary, times * overhead, candidates);
    }
    const Attempt attempt(groundwork, boundary, overhead);
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

  /// As many bytes cost both links as long as handling a page-out and a page-in takes.
  static std::uint64_t overhead_of(const Machine& machine) {
    const auto handling = std::chrono::duration<double>(machine.out.handling + machine.in.handling).count();
    return static_cast<std::uint64_t>(handling / (1 / machine.out.fastest() + 1 / machine.in.fastest()));
  }

  static std::uint64_t share_of(std::uint64_t bytes, double share) {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * share);
  }

  static void search_with(const Groundwork& groundwork, const Boundary* boundary, std::uint64_t overhead,
                          Candidates& candidates) {
    Attempt attempt(groundwork, boundary, overhead);
    const std::uint64_t space = groundwork.space();
    const std::uint64_t least = (groundwork.liveness.floor() - groundwork.liveness.slab()).count();
    Candidates found;
    std::uint64_t planned = space;
    std::uint64_t lowest = space;
    std::uint64_t fitted = 0;             // the most that was planned for and fitted
    std::uint64_t too_much = UINT64_MAX;  // the least that did not
    std::size_t rounds = kFeedbackRounds;
    for (std::size_t round = 0; round < rounds && planned >= least; ++round) {
      const std::vector<Interval> scheduled = attempt.schedule(planned);
      rounds = std::clamp<std::size_t>(kFeedbackWork / std::max<std::size_t>(scheduled.size(), 1), 2, kFeedbackRounds);
      double scale = kSmallestFeedbackStep;
      const Nanoseconds promised = attempt.step_by_bytes(scheduled);
      const auto may_be_quicker = [&] {
        return found.empty() || promised < found.least_step() + found.least_step() / kPromiseMayBeat;
      };
      if (may_be_quicker()) {
        attempt.allow_packing(scheduled.size());
        std::vector<Interval> intervals = scheduled;
        const std::uint64_t top = attempt.place(intervals, 1);
        if (top <= space) {
          fitted = std::max(fitted, planned);
          found.offer(attempt.finish(intervals));
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
    if (overhead == 0 && (found.empty() || (planned < space && groundwork.liveness.ops() <= kOnlineOps))) {
      if (auto rows = attempt.online()) found.offer(std::move(*rows));
    }
    for (Candidate& rows : found.all()) candidates.offer(std::move(rows));
  }
};

}  // namespace

std::unique_ptr<Planner> make_pages_planner() { return std::make_unique<PagesPlanner>(); }

}  // namespace tensorpager::plan
