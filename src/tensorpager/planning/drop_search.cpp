#include "tensorpager/planning/drop_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "tensorpager/plan/rewriting.h"
#include "tensorpager/planning/attempt.h"

namespace tensorpager::planning {
namespace {

constexpr std::size_t kKept = 4;
constexpr std::size_t kRatioSteps = 16;
/// Of a window of more ops only some of the choices are made that others begin with: each takes a second to judge.
constexpr std::size_t kLargeWindow = 50'000;
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
/// The standard deviation of the logarithm of the factor by which a cost is changed at random.
constexpr double kCostNoise = 0.5;

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

}  // namespace

DropSearch::DropSearch(const Groundwork& groundwork, Means means)
    : groundwork_(groundwork),
      means_(means),
      recomputation_(groundwork.problem.trace, groundwork.liveness, groundwork.op_times),
      shaving_(groundwork, recomputation_.droppable()),
      unnamed_(groundwork.problem.trace) {
  for (trace::Op& op : unnamed_.ops) op.name.clear();
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
      const Arguments arguments = begin_with->arguments;
      offer(shaving_.shaved(begin_with->dropped, shaving_.costs(arguments), space), arguments);
    }
  }
  if (!goes_on) construct(Arguments::kFreed);
  std::optional<Choice> begin = best();
  if (!goes_on) {
    construct(Arguments::kKeptForMore);
    const std::optional<Choice> kept = best();
    if (kept && (!begin || kept->step < kWorthKeeping * begin->step)) begin = kept;
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
  const std::int64_t most = std::ranges::max(shaving_.live_without(dropped));
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
  const std::vector<std::uint32_t>& order = shaving_.by_ratio(arguments);
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
      offer_both(shaving_.shaved(std::move(none), shaving_.costs(arguments), target, weight), arguments);
    }
  }
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
/// again; or keeps a few that are dropped, and drops others for them, at costs changed at random, until the highest
/// peak is about what it was.
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
      Drop& gap = next[kind == 2 ? shaving_.by_ratio(choice.arguments)[i] : i];
      if (kind != 3 || gap != Drop::kKept) gap = to;
    }
  } else {
    const std::vector<std::int64_t> live = shaving_.live_without(choice.dropped);
    const double peak = static_cast<double>(*std::ranges::max_element(live));
    std::size_t kept = 1 + below(4);
    for (std::size_t i = 0; i < next.size() && kept > 0; ++i) {
      const std::size_t gap = (start + i) % next.size();
      if (next[gap] == Drop::kKept || below(2) == 0) continue;
      next[gap] = Drop::kKept;
      --kept;
    }
    const double share = std::uniform_real_distribution<double>(0.97, 1.02)(random_);
    std::vector<double> costs = shaving_.costs(choice.arguments);
    for (double& cost : costs) cost *= std::exp(std::normal_distribution<double>(0, kCostNoise)(random_));
    next = shaving_.shaved(std::move(next), costs, static_cast<std::uint64_t>(peak * share));
  }
  return next;
}

}  // namespace tensorpager::planning
