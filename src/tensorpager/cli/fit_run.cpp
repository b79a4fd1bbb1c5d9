#include "tensorpager/cli/fit_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/link.h"
#include "tensorpager/cli/emulate.h"
#include "tensorpager/cli/sized_runs.h"
#include "tensorpager/fit/data_parallel.h"
#include "tensorpager/fit/estimate.h"
#include "tensorpager/fit/measuring.h"
#include "tensorpager/fit/plain.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/plan/liveness.h"

namespace tensorpager::cli {
namespace {

/// Larger traces take seconds to plan, so fewer sizes are tried, and the answers are bettered for less.
void limit_plans(fit::Question& question, std::size_t ops) {
  constexpr std::size_t kSeconds = 1500, kManySeconds = 5000;
  if (ops <= kSeconds) return;
  question.most_plans = ops > kManySeconds ? 8 : 14;
  question.planning.techniques.annealing /= 4;
}

fit::Ranks parse_ranks(const FitOptions& options, const machine::Machine& machine) {
  fit::Ranks ranks{.count = options.ranks, .bytes_per_second = machine.out.fastest()};
  if (options.interconnect.empty()) return ranks;
  const base::LinkRates rates = base::parse_link(options.interconnect);
  if (rates.out != rates.in)
    throw base::InvalidArgument("--interconnect '" + options.interconnect +
                                "': write one rate, as 25GB/s: in a ring each rank receives as fast as it sends");
  ranks.bytes_per_second = static_cast<double>(rates.out.count());
  return ranks;
}

class Fit {
 public:
  Fit(const FitOptions& options, const Program& program)
      : options_(options),
        machine_(machine::find_machine(machine_of_card(options.machine))),
        planner_(planning::make_planner(!options.planner.empty() ? options.planner
                                        : machine_.card          ? "hybrid"
                                                                 : "pages")),
        ranks_(parse_ranks(options, machine_)),
        reference_(fit::parse_reference_rate(options.learning_rate)),
        runs_(program, {.card = machine_.card ? options.machine : std::string(),
                        .budget = question().budget,
                        .verbose = options.verbose,
                        .says_what_is_run = !options.json}) {}

  FitAnswer run() {
    FitAnswer answer;
    answer.machine = machine_.name;
    if (machine_.card) answer.card = machine_.card->memory;
    answer.name = runs_.name();
    answer.question = question();
    answer.is_timed = is_timed();
    fit::Scaling scaling = trace_two();
    limit_plans(answer.question, scaling.traces().front().trace.ops.size());
    // Ranks hold their gradients once more, in buckets.
    if (options_.ranks > 1)
      answer.question.budget = answer.question.budget -
                               std::min(answer.question.budget, fit::gradient_bytes(scaling.traces().front().trace));
    for (int more = 0;; ++more) {
      answer_by(scaling, answer);
      if (!answer.found.quickest) break;
      const std::uint64_t size = answer.found.quickest->size;
      auto other = is_timed() ? timed_more(scaling, size) : check(scaling, size, answer);
      if (!other || more == kMostMore) break;
      scaling.add(std::move(*other));
      if (!is_timed())
        runs_.say("some amounts do not grow in proportion to " + runs_.name() + ": again, with this trace, too");
    }
    if (is_timed() && answer.found.quickest) {
      measure(scaling, answer);
      check(scaling, answer.found.quickest->size, answer);
    }
    if (machine_.card) answer.plain = largest_plain(scaling);
    if (options_.steps > 0)
      answer.noise = fit::noise_scale(runs_.gradients(options_.steps, options_.from), options_.from);
    for (const fit::SizedTrace& traced : scaling.traces()) answer.traced.push_back(traced.size);
    if (answer.found.quickest) {
      if (options_.ranks > 1) answer.ranks = data_parallel(scaling.at(answer.found.quickest->size), answer.question);
      if (reference_) answer.learning_rate = reference_->at(answer.found.quickest->size * options_.ranks, answer.noise);
    }
    return answer;
  }

 private:
  using Way = SizedRuns::Way;
  using Lists = SizedRuns::Lists;
  static constexpr int kMostMore = 3;  // traces beyond the first two

  void answer_by(const fit::Scaling& scaling, FitAnswer& answer) const {
    answer.found =
        fit::search(scaling, machine_, *planner_, answer.question, [&](std::uint64_t size, fit::Effort effort) {
          runs_.say("planning " + runs_.name() + " " + std::to_string(size) +
                    (effort == fit::Effort::kFull ? " in full" : ""));
        });
  }

  fit::Question question() const {
    fit::Question question;
    if (!options_.budget.empty())
      question.budget = base::parse_size(options_.budget, machine_.card ? machine_.card->memory : machine_.memory);
    else if (machine_.card)
      question.budget = machine_.card->memory - std::min(machine_.card->memory, fit::kContext);
    else
      throw base::InvalidArgument("no budget: write --budget SIZE, as " + options_.machine + " has no card");
    question.within = options_.overhead / 100;
    question.most_size = options_.to;
    question.planning.link_share = options_.link_share / 100;
    question.planning.threads = std::max(1U, std::thread::hardware_concurrency());
    auto& all = question.overheads;
    if (std::ranges::find(all, question.within) == all.end())
      all.insert(std::ranges::upper_bound(all, question.within), question.within);
    return question;
  }

  RanksAnswer data_parallel(const trace::Trace& trace, const fit::Question& question) const {
    const fit::Clock resident = fit::clock_of(trace, machine_);
    fit::Clock clock = resident;
    if (plan::Liveness(trace).need() > question.budget) {
      const auto plan = planner_->plan(
          {.trace = trace, .machine = machine_, .budget = question.budget, .options = question.planning});
      if (plan) clock = fit::clock_of(trace, machine_, plan.value());
    }
    return {.ranks = ranks_,
            .reduction = fit::reduce_gradients(trace, clock, ranks_),
            .resident = fit::reduce_gradients(trace, resident, ranks_)};
  }

  /// A machine without rates takes the times of real steps, of sizes that are small enough to be run.
  bool is_timed() const { return machine_.byte_rate == 0; }

  /// At sizes whose steps do the same: torch chooses other ops for very small tensors.
  fit::Scaling trace_two() {
    constexpr int kTries = 4;
    const Way way = is_timed() ? Way::kTimed : Way::kDry;
    auto [first, second] = runs_.traced_twice(options_.from, way, lists_);
    for (int i = 1;; ++i) {
      const std::string difference = fit::difference_of(first.trace, second.trace);
      if (difference.empty()) return {std::move(first), std::move(second)};
      if (!machine_.card && std::exchange(lists_, Lists::kPaged) == Lists::kAll) {
        runs_.say("steps differ (" + difference +
                  "): again without ops on small storages only, as batches are made of");
        return trace_two();
      }
      if (i == kTries || second.size > options_.to / 2)
        throw NotPossible("no answer: the steps of the program at " + runs_.name() + " " + std::to_string(first.size) +
                          " and " + std::to_string(second.size) + " differ: " + difference +
                          "; begin with a larger one, with --from");
      first = std::exchange(second, runs_.traced(2 * second.size, way, lists_));
    }
  }

  /// nullopt if the program wrote no trace.
  std::optional<fit::SizedTrace> try_traced(std::uint64_t size, Way way, base::Bytes budget = base::kUnlimited) {
    try {
      return runs_.traced(size, way, lists_, budget);
    } catch (const NotPossible&) {
      return std::nullopt;
    }
  }

  /// Asks torch's allocator in dry runs.
  fit::Plain largest_plain(const fit::Scaling& scaling) {
    const base::Bytes card = machine_.card->memory;
    const auto ask = [this](std::uint64_t size) -> std::optional<base::Bytes> {
      if (!try_traced(size, Way::kDryAndLonger)) return std::nullopt;
      return runs_.reserved().at(size);
    };
    return fit::largest_plain(scaling, card - std::min(card, fit::kContext), options_.to, runs_.reserved(), ask);
  }

  void measure(const fit::Scaling& scaling, FitAnswer& answer) const {
    constexpr std::size_t kMost = 5;  // each takes as long as the program runs
    std::vector<std::uint64_t> sizes;
    sizes.reserve(kMost);
    for (const fit::Point& point : fit::near_quickest(answer.found, answer.question.within, kMost))
      sizes.push_back(point.size);
    const fit::PerSecond measured = fit::measure_sizes(
        sizes, [&](std::uint64_t size) { return runs_.per_second_under_plans(answer.question.budget, size); });
    if (measured.empty()) return;
    for (const auto& [size, per_second] : measured) answer.measured.push_back({.size = size, .per_second = per_second});
    if (const auto point = fit::point_at(fit::quickest_of(measured), scaling, machine_, *planner_, answer.question))
      answer.found.add_quickest(*point);
  }

  /// The times of real steps at a size, unless such steps of nearly that size are known: what is scaled from far is
  /// wrong by up to a third.
  std::optional<fit::SizedTrace> timed_more(const fit::Scaling& scaling, std::uint64_t size) {
    constexpr std::uint64_t kNear = 8;  // an eighth of the size
    const auto is_near = [size](std::uint64_t other) {
      return std::max(size, other) - std::min(size, other) <= size / kNear;
    };
    if (std::ranges::any_of(scaling.traces(), is_near, &fit::SizedTrace::size)) return std::nullopt;
    // What this machine cannot hold is paged, which costs the ops nothing that counts as their time.
    const bool is_held = plan::Liveness(scaling.at(size)).need().count() <= machine_.memory.count() / 2;
    auto real = try_traced(size, Way::kTimed, is_held ? base::kUnlimited : question().budget);
    if (!real || !fit::difference_of(scaling.traces().front().trace, real->trace).empty()) return std::nullopt;
    return real;
  }

  /// Runs dry at the size. Returns a trace whose amounts are not as scaled, if one was found.
  std::optional<fit::SizedTrace> check(const fit::Scaling& scaling, std::uint64_t size, FitAnswer& answer) {
    const std::string at = runs_.name() + " " + std::to_string(size);
    const bool is_traced =
        !is_timed() && std::ranges::find(scaling.traces(), size, &fit::SizedTrace::size) != scaling.traces().end();
    answer.is_as_scaled = is_traced;
    answer.checked = "checked: a dry run at " + at + " does what the scaled trace says";
    if (is_traced) return std::nullopt;
    try {
      fit::SizedTrace real = runs_.traced(size, Way::kDry, lists_);
      const trace::Trace scaled = scaling.at(size);
      const std::string difference = fit::difference_of(scaled, real.trace);
      const auto amounts = difference.empty() ? fit::other_amounts(scaled, real.trace) : fit::OtherAmounts();
      answer.is_as_scaled = difference.empty() && amounts.count == 0;
      if (!answer.is_as_scaled && lists_ == Lists::kPaged)  // with the size, storages become large enough to be listed
        compare_needs(scaled, real, at, answer);
      else if (!difference.empty())
        answer.checked = "NOT as scaled: a dry run at " + at + " does other things: " + difference +
                         "; begin with a larger size, with --from";
      else if (amounts.count > 0)
        answer.checked = "NOT as scaled: in a dry run at " + at + " " + std::to_string(amounts.count) + " of " +
                         std::to_string(real.trace.storages.size() + real.trace.ops.size()) +
                         " storages and ops have other bytes or work, the first: " + amounts.first + " (need " +
                         base::format_bytes(plan::Liveness(real.trace).need()) + ")";
      if (amounts.count > 0 && !is_timed()) return real;
    } catch (const NotPossible& error) {
      answer.checked = "NOT checked: at " + at + " there is " + error.what();
      return larger_than_traced(scaling);
    }
    return std::nullopt;
  }

  /// Of the storages that are listed. The chunks that hold small ones do not count: the program may need more of them
  /// after the step at which a dry run ends.
  static void compare_needs(const trace::Trace& scaled, const fit::SizedTrace& real, const std::string& at,
                            FitAnswer& answer) {
    constexpr double kClose = 0.01;
    const auto need_of = [](const trace::Trace& trace) { return plan::Liveness(trace).need() - trace.slab; };
    const base::Bytes expected = need_of(scaled), found = need_of(real.trace);
    const double error = static_cast<double>(expected.count()) / static_cast<double>(found.count()) - 1;
    answer.is_as_scaled = std::abs(error) <= kClose;
    answer.checked = (answer.is_as_scaled ? "checked" : "NOT as scaled") + std::string(": a dry run at ") + at +
                     " needs " + base::format_bytes(found) + " for what is paged, the scaled trace " +
                     base::format_bytes(expected);
  }

  /// A size that was far too large tells nothing; twice the largest one that was traced may.
  std::optional<fit::SizedTrace> larger_than_traced(const fit::Scaling& scaling) {
    const std::uint64_t size = 2 * scaling.traces().back().size;
    if (size > options_.to || is_timed()) return std::nullopt;
    auto real = try_traced(size, Way::kDry);
    const trace::Trace scaled = scaling.at(size);
    if (!real || !fit::difference_of(scaled, real->trace).empty() || fit::other_amounts(scaled, real->trace).count == 0)
      return std::nullopt;
    return real;
  }

  const FitOptions& options_;
  const machine::Machine machine_;
  const std::unique_ptr<planning::Planner> planner_;
  const fit::Ranks ranks_;
  const std::optional<fit::ReferenceRate> reference_;
  SizedRuns runs_;
  Lists lists_ = Lists::kAll;  // of the traces that are scaled
};

}  // namespace

FitAnswer run_fit(const FitOptions& options, const Program& program) { return Fit(options, program).run(); }

}  // namespace tensorpager::cli
