// `tensorpager report`: explains a plan.
#include <cstdio>
#include <memory>
#include <vector>

#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/planning.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/plan/rewriting.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/planning/recomputation.h"
#include "tensorpager/report/report.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::cli {
namespace {

struct ReportOptions {
  std::string trace;
  std::string plan;
  std::string machine;
  std::string output;
};

std::vector<report::Rebuild> rebuilds_of(const trace::Trace& program, const machine::Machine& machine) {
  const plan::Liveness liveness(program);
  const planning::Recomputation recomputation(program, liveness, plan::op_times(program, machine));
  std::vector<report::Rebuild> found;
  for (const planning::Droppable& one : recomputation.droppable())
    found.push_back({one.storage, one.from, one.to, one.cost});
  return found;
}

void report_plan(const ReportOptions& options) {
  const trace::Trace program = trace::read_trace_file(options.trace);
  const plan::Plan plan = plan::read_plan_file(options.plan);
  const machine::Machine machine = machine::find_machine(options.machine.empty() ? plan.machine : options.machine);
  require_valid(program, plan, options.plan);
  const plan::Rewriting window = plan::rewrite(program, plan.replays).value();
  const plan::Liveness liveness(window.trace);
  const sim::Outcome outcome = sim::simulate(program, plan, machine);
  const std::vector<report::Rebuild> rebuilds = rebuilds_of(program, machine);
  const report::Subject subject{window, plan, machine, liveness, outcome.measured, outcome.stalls, rebuilds};
  if (!options.output.empty()) base::write_whole_file(options.output, report::write_svg(subject));
  std::printf("%s", report::write_text(subject).c_str());
}

}  // namespace

void add_report_command(CLI::App& app, const Program&) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* verb = app.add_subcommand(
      "report", "Explain a plan: owners of the peak, stalls, most expensive evictions and rebuilds, and alternatives");
  verb->add_option("trace", options->trace, "Trace file")->required();
  verb->add_option("plan", options->plan, "Plan file")->required();
  verb->add_option("--machine", options->machine, "Machine to follow it on [the one it was made for]");
  verb->add_option("-o,--output", options->output, "Write bytes over ops to this file, as SVG");
  verb->footer("Example:\n  tensorpager report step.trace step.plan -o step.svg");
  verb->callback([options] { report_plan(*options); });
}

}  // namespace tensorpager::cli
