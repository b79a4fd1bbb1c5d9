// `tensorpager validate`: checks whether a plan is valid for a trace, with code that the planners do not share.
#include <cstdio>
#include <memory>

#include "tensorpager/cli/command.h"
#include "tensorpager/cli/planning.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/classes.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::cli {
namespace {

struct ValidateOptions {
  std::string trace;
  std::string plan;
  std::string boundary;
};

void validate(const ValidateOptions& options) {
  const trace::Trace trace = trace::read_trace_file(options.trace);
  const plan::Plan plan = plan::read_plan_file(options.plan);
  for (const std::string& violation : plan::validate(trace, plan)) std::printf("%s\n", violation.c_str());
  require_valid(trace, plan, options.plan);
  if (!options.boundary.empty()) {
    const auto violations = plan::validate_boundary(trace, plan, plan::read_boundary_file(options.boundary));
    for (const std::string& violation : violations) std::printf("%s\n", violation.c_str());
    if (!violations.empty())
      throw NotPossible(options.plan + ": does not keep " + options.boundary + ": " + violations.front());
  }
  std::printf("%s: valid: %zu rows, within %s\n", options.plan.c_str(), plan.rows.size(),
              base::format_bytes(plan.budget).c_str());
}

}  // namespace

void add_validate_command(CLI::App& app, const Program&) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* verb = app.add_subcommand("validate", "Check a plan against a trace; exit code 1 if it is not right");
  verb->add_option("trace", options->trace, "Trace file")->required();
  verb->add_option("plan", options->plan, "Plan file")->required();
  verb->add_option("--boundary", options->boundary, "Boundary table that the plan must begin and end with");
  verb->footer("Example:\n  tensorpager validate step.trace step.plan");
  verb->callback([options] { validate(*options); });
}

}  // namespace tensorpager::cli
