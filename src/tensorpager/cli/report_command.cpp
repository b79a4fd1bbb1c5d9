// `tensorpager report`: explains a plan.
#include <cstdio>
#include <memory>

#include "tensorpager/base/records.h"
#include "tensorpager/cli/command.h"
#include "tensorpager/cli/planning.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/plan/rewriting.h"
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

void report_plan(const ReportOptions& options) {
  const trace::Trace program = trace::read_trace_file(options.trace);
  const plan::Plan plan = plan::read_plan_file(options.plan);
  const machine::Machine machine = machine::find_machine(options.machine.empty() ? plan.machine : options.machine);
  require_valid(program, plan, options.plan);
  const trace::Trace trace = plan::rewritten(program, plan);
  const plan::Liveness liveness(trace);
  const sim::Outcome outcome = sim::simulate(program, plan, machine);
  const report::Subject subject{trace, plan, machine, liveness, outcome.measured, outcome.stalls};
  if (!options.output.empty()) base::write_whole_file(options.output, report::write_svg(subject));
  std::printf("%s", report::write_text(subject).c_str());
}

}  // namespace

void add_report_command(CLI::App& app, const Program&) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* verb = app.add_subcommand("report", "Explain a plan: owners of the peak, stalls, most expensive decisions");
  verb->add_option("trace", options->trace, "Trace file")->required();
  verb->add_option("plan", options->plan, "Plan file")->required();
  verb->add_option("--machine", options->machine, "Machine to follow it on [the one it was made for]");
  verb->add_option("-o,--output", options->output, "Write bytes over ops to this file, as SVG");
  verb->footer("Example:\n  tensorpager report step.trace step.plan -o step.svg");
  verb->callback([options] { report_plan(*options); });
}

}  // namespace tensorpager::cli
