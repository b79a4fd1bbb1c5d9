#include "tensorpager/cli/planning.h"

#include <array>
#include <cstdio>
#include <optional>
#include <thread>

#include "tensorpager/base/errors.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/plan/boundary_table.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/caching_model.h"
#include "tensorpager/planning/lower_bound.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::cli {
namespace {

double seconds(machine::Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

double waste(base::Bytes taken, base::Bytes used) {
  return used > base::Bytes(0) ? static_cast<double>(taken.count()) / static_cast<double>(used.count()) - 1 : 0;
}

}  // namespace

base::Bytes read_budget(const std::string& text, const plan::Liveness& liveness) {
  try {
    return base::parse_size(text, liveness.need());
  } catch (const base::InvalidArgument&) {
    throw base::InvalidArgument(
        "--budget: '" + text +
        "' is not a size; write bytes, KiB/MiB/GiB, KB/MB/GB, N% of the trace's need or unlimited");
  }
}

planning::Options read_planning(const PlanningOptions& options) {
  return {.link_share = options.link_share / 100,
          .reserve = options.reserve / 100,
          .threads = std::thread::hardware_concurrency()};
}

void add_machine_option(CLI::App& verb, std::string& machine) {
  std::string names;
  for (const std::string& name : machine::machine_names()) names += name + ", ";
  verb.add_option("--machine", machine, "Machine to plan for: " + names + "or a machine file")->required();
}

void add_planning_options(CLI::App& verb, PlanningOptions& options) {
  verb.add_option("trace", options.trace, "Trace file")->required();
  verb.add_option("--budget", options.budget, "Hard limit on charged bytes: 8GiB, 500MB, 50% (of the trace's need)")
      ->required();
  add_machine_option(verb, options.machine);
  std::string names;
  for (const std::string& name : planning::planner_names()) names += (names.empty() ? "" : ", ") + name;
  verb.add_option("--planner", options.planner, "Planner: " + names + " [" + options.planner + "]");
  verb.add_option("--reserve", options.reserve, "Percent of the budget kept for blocks that no plan knows [2]")
      ->check(CLI::Range(0.0, 50.0));
  verb.add_option("--link-share", options.link_share, "Percent of the machine's links to plan with [75]")
      ->check(CLI::Range(1.0, 100.0));
}

Planning::Planning(const PlanningOptions& options)
    : trace_(trace::read_trace_file(options.trace)),
      machine_(machine::find_machine(options.machine)),
      liveness_(trace_),
      budget_(read_budget(options.budget, liveness_)),
      result_(make_plan(options)),
      path_(options.trace) {}

base::Result<plan::Plan, planning::Infeasible> Planning::make_plan(const PlanningOptions& options) const {
  std::optional<plan::BoundaryTable> table;
  if (!options.boundary.empty()) table = plan::read_boundary_file(options.boundary);
  return planning::make_planner(options.planner)
      ->plan({.trace = trace_,
              .machine = machine_,
              .budget = budget_,
              .options = read_planning(options),
              .boundary = table ? &*table : nullptr});
}

void Planning::require_plan() const {
  if (!result_) fail_to_fit(path_, trace_, budget_, result_.error());
}

void fail_to_fit(const std::string& path, const trace::Trace& trace, base::Bytes budget,
                 const planning::Infeasible& why) {
  const plan::Liveness liveness(trace);
  const std::string at = ": does not fit in " + base::format_bytes(budget);
  if (why.for_boundary)
    throw NotPossible(path + at +
                      " with this boundary table, and does without; make one for all classes: `plan --also`");
  throw NotPossible(path + at + ": " + std::to_string(why.short_by.count()) + " bytes short at op " +
                    std::to_string(why.op) + " (" + trace.ops[why.op].name + "); the floor is " +
                    std::to_string(liveness.floor().count()) + " and the need " +
                    std::to_string(liveness.need().count()) + " bytes; try a larger --budget or a smaller batch");
}

void require_valid(const trace::Trace& trace, const plan::Plan& plan, const std::string& path) {
  const std::vector<std::string> violations = plan::validate(trace, plan);
  if (violations.empty()) return;
  throw NotPossible(path + ": is no plan for this trace: " + violations.front() +
                    (violations.size() > 1 ? ", and " + std::to_string(violations.size() - 1) + " more" : ""));
}

Figures::Figures(const trace::Trace& trace, const plan::Liveness& liveness, const plan::Plan& plan,
                 const machine::Machine& machine, const sim::Outcome& outcome)
    : step_seconds(seconds(outcome.measured.step)),
      overhead(plan::overhead_of(outcome.measured.step, machine.time_of_ops(trace))),
      lower_bound_overhead(
          plan::overhead_of(planning::lower_bound(liveness, plan::op_times(trace, machine), machine, plan.budget),
                            machine.time_of_ops(trace))),
      recompute_seconds(seconds(outcome.measured.compute) - seconds(machine.time_of_ops(trace))),
      stall_seconds(seconds(outcome.stalled())),
      page_out(outcome.measured.page_out),
      page_in(outcome.measured.page_in),
      peak(outcome.measured.peak),
      host(plan::host_bytes(plan)),
      placement_waste(waste(plan.top() + plan.slab, outcome.measured.peak)),
      caching_waste(waste(planning::cached_for(plan), outcome.measured.peak)) {}

std::string describe(const Figures& figures) {
  std::array<char, 256> text{};
  std::string recomputed;
  if (figures.recompute_seconds > 0)
    recomputed = ", recomputed " + std::to_string(figures.recompute_seconds).substr(0, 6) + " s";
  std::snprintf(text.data(), text.size(),
                "step %.4f s, overhead %.2f %% (%s %.2f %%), stalled %.4f s%s; peak %s; out %s, in %s; waste %.2f %%",
                figures.step_seconds, figures.overhead * 100,
                recomputed.empty() ? "lower bound" : "without recomputation at least",
                figures.lower_bound_overhead * 100, figures.stall_seconds, recomputed.c_str(),
                base::format_bytes(figures.peak).c_str(), base::format_bytes(figures.page_out).c_str(),
                base::format_bytes(figures.page_in).c_str(), figures.placement_waste * 100);
  return text.data();
}

}  // namespace tensorpager::cli
