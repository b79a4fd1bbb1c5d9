// `tensorpager plan`: makes a plan file from a trace, or plans with one boundary table from traces of several classes.
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "tensorpager/base/errors.h"
#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/planning.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/planning/classes.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::cli {
namespace {

struct PlanOptions {
  PlanningOptions planning;
  std::string output;
  std::string boundary_output;
  std::vector<std::pair<std::string, std::string>> also;  // trace, plan
};

void show(const std::string& path, const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine) {
  const sim::Outcome outcome = sim::simulate(trace, plan, machine);
  const Figures figures(trace, plan::Liveness(trace), plan, machine, outcome);
  const bool is_known = plan.technique != plan::Technique::kNone;
  const std::string technique = is_known ? std::string("; placed by ") + plan::name_of(plan.technique) : "";
  std::printf("%s: %s%s\n", path.c_str(), describe(figures).c_str(), technique.c_str());
}

void plan_trace(const PlanOptions& options) {
  const Planning planning(options.planning);
  planning.require_plan();
  base::write_whole_file(options.output, plan::write_plan(planning.result().value()));
  show(options.output, planning.trace(), planning.result().value(), planning.machine());
}

void plan_all(const PlanOptions& options) {
  if (options.planning.planner != "pages" || !options.planning.boundary.empty())
    throw base::InvalidArgument(
        "plan: --also and --boundary-out make a boundary table: leave out --planner and --boundary");
  std::vector<std::pair<std::string, std::string>> files = {{options.planning.trace, options.output}};
  files.insert(files.end(), options.also.begin(), options.also.end());
  const machine::Machine machine = machine::find_machine(options.planning.machine);
  std::vector<trace::Trace> traces;
  traces.reserve(files.size());
  for (const auto& [path, output] : files) traces.push_back(trace::read_trace_file(path));
  // One program has one budget: a percentage refers to the first trace's need.
  const base::Bytes budget = read_budget(options.planning.budget, plan::Liveness(traces.front()));
  std::vector<planning::Problem> problems;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const plan::Liveness liveness(traces[i]);
    if (budget < liveness.floor())
      fail_to_fit(files[i].first, traces[i], budget, {liveness.floor() - budget, liveness.floor_op()});
    problems.push_back(
        {.trace = traces[i], .machine = machine, .budget = budget, .options = read_planning(options.planning)});
  }
  const planning::ClassPlans found = planning::plan_classes(problems).value();
  for (std::size_t i = 0; i < files.size(); ++i) {
    base::write_whole_file(files[i].second, plan::write_plan(found.plans[i]));
    show(files[i].second, traces[i], found.plans[i], machine);
  }
  if (!options.boundary_output.empty())
    base::write_whole_file(options.boundary_output, plan::write_boundary(found.table));
}

}  // namespace

void add_plan_command(CLI::App& app, const Program&) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* verb = app.add_subcommand("plan", "Plan what moves when, for one trace, budget and machine");
  add_planning_options(*verb, options->planning);
  verb->add_option("-o,--output", options->output, "Plan file to write")->required();
  verb->add_option("--also", options->also,
                   "TRACE PLAN: another class of windows, and its plan file; all begin and end with one boundary table")
      ->expected(1, 64);
  verb->add_option("--boundary-out", options->boundary_output, "Boundary table to write");
  verb->add_option("--boundary", options->planning.boundary, "Begin and end with this boundary table");
  verb->footer(
      "Example:\n  tensorpager plan step.trace --budget 8GiB --machine h200-141g -o step.plan\n"
      "  tensorpager plan train.trace --budget 8GiB --machine h200-141g -o train.plan --also evaluate.trace "
      "evaluate.plan");
  verb->callback([options] {
    if (options->also.empty() && options->boundary_output.empty()) return plan_trace(*options);
    plan_all(*options);
  });
}

}  // namespace tensorpager::cli
