// `tensorpager plan`: from a trace to a plan file.
#include <cstdio>
#include <memory>

#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/planning.h"
#include "tensorpager/plan/plan_io.h"

namespace tensorpager::cli {
namespace {

struct PlanOptions {
  PlanningOptions planning;
  std::string output;
};

void plan_trace(const PlanOptions& options) {
  const Planning planning(options.planning);
  planning.require_plan();
  const plan::Plan& plan = planning.result().value();
  base::write_whole_file(options.output, plan::write_plan(plan));
  const sim::Outcome outcome = sim::simulate(planning.trace(), plan, planning.machine());
  std::printf("%s: %s\n", options.output.c_str(),
              describe(Figures(planning.trace(), planning.liveness(), plan, planning.machine(), outcome)).c_str());
}

}  // namespace

void add_plan_command(CLI::App& app, const Program&) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* verb = app.add_subcommand("plan", "Plan what moves when, for one trace, budget and machine");
  add_planning_options(*verb, options->planning);
  verb->add_option("-o,--output", options->output, "Plan file to write")->required();
  verb->footer("Example:\n  tensorpager plan step.trace --budget 8GiB --machine h200-141g -o step.plan");
  verb->callback([options] { plan_trace(*options); });
}

}  // namespace tensorpager::cli
