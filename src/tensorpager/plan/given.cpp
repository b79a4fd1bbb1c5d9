#include "tensorpager/plan/given.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tensorpager/base/errors.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/plan/plan_io.h"
#include "tensorpager/plan/rewriting.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/trace/trace_io.h"

namespace tensorpager::plan {

using base::Bytes;
using base::InvalidArgument;

namespace {

/// Computes the predicted curve, which plan files do not contain: it does not depend on the machine.
std::vector<Bytes> curve_of(const trace::Trace& trace, const Plan& plan) {
  const machine::Link link{.steps = {{.from = {}, .bytes_per_second = 1e9}}};
  Machine machine;
  machine.out = machine.in = link;
  return predict(plan, op_times(rewritten(trace, plan), machine), machine).curve;
}

GivenPlan read_given_plan(const std::string& path, Bytes budget, base::Device device) {
  const std::string trace_path = std::filesystem::path(path).replace_extension(".trace");
  if (trace_path == path) throw InvalidArgument(path + ": a trace, where a plan is expected");
  GivenPlan given{.trace = trace::read_trace_file(trace_path), .plan = read_plan_file(path)};
  const std::vector<std::string> violations = validate(given.trace, given.plan);
  if (!violations.empty()) throw InvalidArgument(path + ": is no plan for " + trace_path + ": " + violations.front());
  if (given.plan.budget > budget)
    throw InvalidArgument(path + ": made for a budget of " + base::format_bytes(given.plan.budget) +
                          ", and this run has " + base::format_bytes(budget) +
                          "; plan again with `tensorpager plan --budget " + std::to_string(budget.count()) + "`");
  const Bytes granule = base::granule_of(device);
  if (given.trace.granule != granule)
    throw InvalidArgument(trace_path + ": its granule is " + std::to_string(given.trace.granule.count()) +
                          " bytes, and on this device (" + to_string(device) + ") blocks are rounded up to " +
                          std::to_string(granule.count()) + "; record the program with `tensorpager trace --device " +
                          to_string(device) + "`");
  given.plan.predicted.curve = curve_of(given.trace, given.plan);
  return given;
}

}  // namespace

std::vector<std::string> split_paths(const std::string& paths) {
  std::vector<std::string> split;
  std::istringstream list(paths);
  for (std::string path; std::getline(list, path, ':');)
    if (!path.empty()) split.push_back(path);
  return split;
}

std::vector<GivenPlan> read_given_plans(const std::string& paths, Bytes budget, base::Device device) {
  std::vector<GivenPlan> given;
  for (const std::string& path : split_paths(paths)) given.push_back(read_given_plan(path, budget, device));
  if (given.empty()) throw InvalidArgument("'" + paths + "' names no plan");
  if (given.size() > 1 && !std::ranges::all_of(given, [](const GivenPlan& one) { return one.plan.shared_boundary; }))
    throw InvalidArgument("'" + paths +
                          "': plans that follow each other must share a boundary table; make them with "
                          "`tensorpager plan --also`");
  return given;
}

std::vector<GivenPlan> read_plans_of(const base::Config& config) {
  if (!config.plans)
    throw InvalidArgument(
        "a plan to follow (--plan, TENSORPAGER_PLAN) and none at all (--on-demand, TENSORPAGER_ON_DEMAND) contradict "
        "each other");
  return read_given_plans(config.plan, config.budget, config.device);
}

Bytes budget_of(const std::vector<GivenPlan>& given) {
  return std::ranges::max_element(given, {}, [](const GivenPlan& one) { return one.plan.budget; })->plan.budget;
}

}  // namespace tensorpager::plan
