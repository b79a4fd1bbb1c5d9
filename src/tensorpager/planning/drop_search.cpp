#include "tensorpager/planning/drop_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "tensorpager/plan/rewriting.h"
#include "tensorpager/planning/attempt.h"
#include "tensorpager/planning/segment_tree.h"

namespace tensorpager::planning {
namespace {

constexpr std::size_t kKept = 4;
constexpr std::size_t kRatioSteps = 16;
/// Of a window of more ops only some of the choices are made that others begin with: each takes a second to judge.
constexpr std::size_t kLargeWindow = 50'000;
constexpr Arguments kArguments[] = {Arguments::kFreed, Arguments::kKeptForMore};
/// The share of what is above the space that is not dropped: transfers may take it.
constexpr double kLeft[] = {0, 0.12, 0.25, 0.4, 0.6, 0.8};
/// How much it counts against a storage that others are rebuilt near it.
constexpr double kWeights[] = {0, 2, 20};
constexpr std::size_t kMostJudgements = 1500;
/// Where to keep arguments makes a window so much quicker, the search goes on from there.
constexpr double kWorthKeeping = 0.95;
/// So many changes are tried for each judgement: most are slower by their replays alone.
constexpr std::size_t kTriesAJudgement = 4;
/// A choice that is slower by this part is taken once in e times at the beginning, and never at the end.
constexpr double kFirstHeat = 0.0007;

double seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// The same for the same replays, and for others as good as never.
std::size_t hash_of(const std::vector<Replay>& replays) {
  std::size_t hash = replays.size();
  const auto add = [&hash](std::size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15 + (hash >> 29); };
  for (const Replay& replay : replays) {
    add(replay.op);
    add(replay.before);
    for (const trace::StorageId id : replay.keeps) add(trace::index(id));
    add(replay.keeps.size());
  }
  return hash;
}

/// How many dropped bytes are rebuilt near an op, over the target.
class Crowd {
 public:
  /// `weight`: how much it counts; 0: not at all.
  Crowd(std::size_t ops, double weight, double target)
      : weight_(weight), target_(target), reach_(static_cast<std::uint32_t>(ops / 20 + 1)), around_(ops) {}

  void add(const Droppable& gap) {
    if (weight_ == 0) return;
    const std::size_t end = std::min<std::size_t>(gap.to + reach_, around_.size());
    for (std::size_t at = gap.to > reach_ ? gap.to - reach_ : 0; at < end; ++at)
      around_[at] += static_cast<double>(gap.bytes) / target_;
  }

  /// By which a gap's cost counts more, at least 1.
  double factor(const Droppable& gap) const { return 1 + weight_ * around_[gap.to] * around_[gap.to]; }

 private:
  double weight_, target_;
  std::uint32_t reach_;  // ops each way
  std::vector<double> around_;
};

}  // namespace

DropSearch::DropSearch(const Groundwork& groundwork, Means means)
    : groundwork_(groundwork),
      means_(means),
      recomputation_(groundwork.problem.trace, groundwork.liveness, groundwork.op_times) {
  const auto& gaps = recomputation_.droppable();
  unnamed_ = groundwork.problem.trace;
  for (trace::Op& op : unnamed_.ops) op.name.clear();
  for (const Arguments arguments : kArguments) {
    auto& order = by_ratio_[static_cast<std::size_t>(arguments)];
    order.resize(gaps.size());
    for (std::uint32_t i = 0; i < gaps.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return cost_a_byte(i, arguments); });
  }
}

double DropSearch::cost_a_byte(std::uint32_t gap, Arguments arguments) const {
  const Droppable& one = recomputation_.droppable()[gap];
  const Nanoseconds cost = arguments == Arguments::kFreed ? one.cost : one.shared;
  const Nanoseconds handling = groundwork_.problem.machine.out.handling + groundwork_.problem.machine.in.handling;
  return (seconds(cost + handling) + 1e-9) / static_cast<double>(one.bytes);
}

std::vector<DropSearch::Choice> DropSearch::run(const Shares& without) {
  std::vector<Choice> found;
  for (const double share : without) {
    const double budget = static_cast<double>(groundwork_.problem.budget.count()) * (1 - share);
    const base::Bytes within(static_cast<std::uint64_t>(budget));
    search_within(std::max(within, groundwork_.liveness.floor()), last_ ? &*last_ : nullptr);
    if (const auto quickest = best()) last_ = quickest;
    std::ranges::move(best_, std::back_inserter(found));
  }
  std::ranges::stable_sort(found, {}, &Choice::step);
  return found;
}

void DropSearch::search_within(base::Bytes budget, const Choice* begin_with) {
  budget_ = budget;
  best_.clear();
  offered_.clear();
  const std::size_t gaps = recomputation_.droppable().size();
  offer(std::vector<Drop>(gaps), Arguments::kFreed);
  if (gaps == 0) return;
  bool goes_on = false;
  if (begin_with != nullptr) {
    Choice again = *begin_with;
    again.step = Nanoseconds::max();
    judge(again);
    goes_on = again.step != Nanoseconds::max();  // it fits into less, too
    keep(again);
    if (!goes_on) {
      const std::uint64_t space = (budget_ - groundwork_.reserve).count();
      offer(shaved(begin_with->dropped, begin_with->arguments, space, 0.0, 0.0), begin_with->arguments);
    }
  }
  if (!goes_on) construct(Arguments::kFreed);
  std::optional<Choice> begin = best();
  if (!goes_on) {
    construct(Arguments::kKeptForMore);
    const std::optional<Choice> kept = best();
    if (kept && (!begin || seconds(kept->step) < kWorthKeeping * seconds(begin->step))) begin = kept;
  }
  if (!begin) return;
  const std::size_t work = groundwork_.problem.options.techniques.annealing;
  anneal(std::move(*begin), std::min(work / groundwork_.liveness.ops(), kMostJudgements) / std::tuple_size_v<Shares>);
}

bool DropSearch::is_large() const { return groundwork_.liveness.ops() > kLargeWindow; }

void DropSearch::construct(Arguments arguments) {
  shave_peaks(arguments);
  drop_by_ratio(arguments);
}

std::optional<DropSearch::Choice> DropSearch::best() const {
  return best_.empty() ? std::nullopt : std::optional(best_.front());
}

std::optional<DropSearch::Choice> DropSearch::choose(std::vector<Drop> dropped, Arguments arguments) const {
  auto replays = recomputation_.replays(dropped, kMostReplaysAnOp * groundwork_.liveness.ops(), arguments);
  if (!replays) return std::nullopt;
  return Choice{.dropped = std::move(dropped), .arguments = arguments, .replays = std::move(*replays)};
}

void DropSearch::judge(Choice& choice, Nanoseconds most) {
  Nanoseconds computed = groundwork_.starts.back();
  for (const Replay& replay : choice.replays) computed += groundwork_.op_times[replay.op];
  if (2 * computed > most) return;
  ++judged_;
  choice.step = step_of(plan::rewrite(unnamed_, choice.replays).value().trace);
}

Nanoseconds DropSearch::step_of(const trace::Trace& rewritten) const {
  const Problem& problem = groundwork_.problem;
  const Problem with_replays{rewritten, problem.machine, budget_, problem.options};
  const Groundwork inner(with_replays);
  if (inner.is_below_floor()) return Nanoseconds::max();
  if (means_ == Means::kReplays) return inner.liveness.need() > budget_ ? Nanoseconds::max() : 2 * inner.starts.back();
  const Attempt attempt(inner, nullptr, {.overhead = 0, .both_ways = costs_of(problem.machine).both_ways});
  return attempt.step_by_bytes(attempt.schedule(inner.space()));
}

void DropSearch::offer(std::vector<Drop> dropped, Arguments arguments) {
  const Nanoseconds most = best_.size() < kKept ? Nanoseconds::max() : best_.back().step;
  if (least_step(dropped) >= most) return;
  std::optional<Choice> choice = choose(std::move(dropped), arguments);
  // Others that come to the same replays are as good.
  if (!choice || !offered_.insert(hash_of(choice->replays)).second) return;
  judge(*choice, most);
  keep(*choice);
}

Nanoseconds DropSearch::least_step(const std::vector<Drop>& dropped) const {
  const std::int64_t most = std::ranges::max(live_without(dropped));
  const std::int64_t lacking = most - static_cast<std::int64_t>(budget_.count());
  if (lacking <= 0) return Nanoseconds(0);
  if (means_ == Means::kReplays) return Nanoseconds::max();
  const double once = static_cast<double>(lacking) / groundwork_.problem.machine.in.fastest();
  const double both = once + once / groundwork_.problem.options.link_share;
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(both));
}

void DropSearch::keep(const Choice& choice) {
  if (choice.step == Nanoseconds::max()) return;
  const auto is_same = [&](const Choice& one) { return one.step == choice.step && one.replays == choice.replays; };
  if (std::ranges::any_of(best_, is_same)) return;
  best_.insert(std::ranges::upper_bound(best_, choice.step, {}, &Choice::step), choice);
  if (best_.size() > kKept) best_.pop_back();
}

void DropSearch::offer_both(std::vector<Drop> dropped, Arguments arguments) {
  offer(dropped, arguments);
  if (is_large()) return;
  std::ranges::replace(dropped, Drop::kOnce, Drop::kAgain);
  offer(std::move(dropped), arguments);
}

void DropSearch::drop_by_ratio(Arguments arguments) {
  const std::vector<std::uint32_t>& order = by_ratio(arguments);
  std::vector<Drop> dropped(order.size());
  std::size_t done = 0;
  const std::size_t steps = is_large() ? kRatioSteps / 2 : kRatioSteps;
  for (std::size_t step = 1; step <= steps; ++step) {
    for (; done < order.size() * step / steps; ++done) dropped[order[done]] = Drop::kOnce;
    offer_both(dropped, arguments);
  }
}

void DropSearch::shave_peaks(Arguments arguments) {
  const std::uint64_t space = (budget_ - groundwork_.reserve).count();
  const std::uint64_t need = groundwork_.liveness.need().count();
  if (need <= space) return;
  for (const double left : kLeft) {
    const auto target = space + static_cast<std::uint64_t>(left * static_cast<double>(need - space));
    for (const double weight : kWeights) {
      if (is_large() && weight > 0) break;
      std::vector<Drop> none(recomputation_.droppable().size());
      offer_both(shaved(std::move(none), arguments, target, weight, 0.0), arguments);
    }
  }
}

/// Goes to the op with the most live bytes again and again, and drops the storage that is idle there for which it pays
/// most: of two that cost the same for each byte that is lacking, the one that is rebuilt away from others.
std::vector<Drop> DropSearch::shaved(std::vector<Drop> dropped, Arguments arguments, std::uint64_t target,
                                     double weight, double noise) {
  const auto& gaps = recomputation_.droppable();
  std::vector<double> costs(gaps.size());
  for (std::uint32_t i = 0; i < gaps.size(); ++i) {
    costs[i] = cost_a_byte(i, arguments);
    if (noise > 0) costs[i] *= std::exp(std::normal_distribution<double>(0, noise)(random_));
  }
  Crowd crowd(groundwork_.liveness.ops(), weight, static_cast<double>(target));
  std::vector<std::uint32_t> kept;  // the cheapest first, but for the crowd
  for (std::uint32_t i = 0; i < gaps.size(); ++i) {
    if (dropped[i] != Drop::kKept)
      crowd.add(gaps[i]);
    else
      kept.push_back(i);
  }
  std::ranges::stable_sort(kept, {}, [&](std::uint32_t i) { return costs[i]; });
  SegmentTree live(live_without(dropped));
  std::size_t first = 0;  // of `kept` that is not dropped
  while (live.largest() > static_cast<std::int64_t>(target)) {
    const auto op = static_cast<std::uint32_t>(live.first_largest());
    std::size_t best = gaps.size();
    double least = 0;
    while (first < kept.size() && dropped[kept[first]] != Drop::kKept) ++first;
    for (std::size_t at = first; at < kept.size(); ++at) {
      const std::uint32_t i = kept[at];
      if (best != gaps.size() && costs[i] >= least) break;  // a crowd only makes it dearer
      if (dropped[i] != Drop::kKept || gaps[i].from >= op || op >= gaps[i].to) continue;
      const double cost = costs[i] * crowd.factor(gaps[i]);
      if (best != gaps.size() && (cost > least || (cost == least && i > best))) continue;
      best = i;
      least = cost;
    }
    if (best == gaps.size()) break;
    dropped[best] = Drop::kOnce;
    crowd.add(gaps[best]);
    live.add(gaps[best].from + 1, gaps[best].to, -static_cast<std::int64_t>(gaps[best].bytes));
  }
  return dropped;
}

std::vector<std::int64_t> DropSearch::live_without(const std::vector<Drop>& dropped) const {
  const auto& gaps = recomputation_.droppable();
  std::vector<std::int64_t> live(groundwork_.liveness.ops() + 1);  // changes from op to op at first
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (dropped[i] == Drop::kKept) continue;
    live[gaps[i].from + 1] -= static_cast<std::int64_t>(gaps[i].bytes);
    live[gaps[i].to] += static_cast<std::int64_t>(gaps[i].bytes);
  }
  live.pop_back();
  std::int64_t gone = 0;
  for (std::uint32_t op = 0; op < live.size(); ++op) {
    gone += live[op];
    live[op] = static_cast<std::int64_t>(groundwork_.liveness.live(op).count()) + gone;
  }
  return live;
}

void DropSearch::anneal(Choice at, std::size_t judgements) {
  if (at.step <= 2 * groundwork_.starts.back()) return;
  const std::size_t before = judged_;
  for (std::size_t tries = kTriesAJudgement * judgements; tries > 0 && judged_ < before + judgements; --tries) {
    const double done = static_cast<double>(judged_ - before) / static_cast<double>(judgements);
    // Drawn before the choice is judged, so that it need not be judged if it is slower than that.
    const double chance = std::uniform_real_distribution<double>(0, 1)(random_);
    const double worse = -kFirstHeat * (1 - done) * std::log(1 - chance);
    const Nanoseconds most(static_cast<std::int64_t>(static_cast<double>(at.step.count()) * (1 + worse)));
    std::optional<Choice> next = choose(changed(at), at.arguments);
    if (!next) continue;
    judge(*next, most);
    if (next->step > most) continue;
    keep(*next);
    at = std::move(*next);
  }
}

/// Changes one gap, or a few that follow each other in the window or by their ratio; or whether a few are rebuilt
/// again; or keeps a few that are dropped, and drops others for them until the highest peak is what it was.
std::vector<Drop> DropSearch::changed(const Choice& choice) {
  std::vector<Drop> next = choice.dropped;
  const std::size_t kind = below(10);
  const std::size_t start = below(next.size());
  if (kind == 0) {
    next[start] = next[start] == Drop::kKept ? Drop::kOnce : Drop::kKept;
  } else if (kind <= 3) {
    const std::size_t end = std::min(start + 2 + below(7), next.size());
    const Drop to = below(2) == 0 ? Drop::kOnce : kind == 3 ? Drop::kAgain : Drop::kKept;
    for (std::size_t i = start; i < end; ++i) {
      Drop& gap = next[kind == 2 ? by_ratio(choice.arguments)[i] : i];
      if (kind != 3 || gap != Drop::kKept) gap = to;
    }
  } else {
    const std::vector<std::int64_t> live = live_without(choice.dropped);
    const double peak = static_cast<double>(*std::ranges::max_element(live));
    std::size_t kept = 1 + below(4);
    for (std::size_t i = 0; i < next.size() && kept > 0; ++i) {
      const std::size_t gap = (start + i) % next.size();
      if (next[gap] == Drop::kKept || below(2) == 0) continue;
      next[gap] = Drop::kKept;
      --kept;
    }
    const double share = std::uniform_real_distribution<double>(0.97, 1.02)(random_);
    next = shaved(std::move(next), choice.arguments, static_cast<std::uint64_t>(peak * share), 0.0, 0.5);
  }
  return next;
}

}  // namespace tensorpager::planning
