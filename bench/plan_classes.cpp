// What one boundary table costs two classes of windows: each planned alone, and both under the table, also 3 % above
// the larger floor.
//
//   build/dev/bench/bench_plan_classes [TRACE...]
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "../test/plan/synthetic_traces.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/plan/validator.h"
#include "tensorpager/planning/classes.h"
#include "tensorpager/trace/trace_io.h"

namespace {

using namespace tensorpager;

double overhead(const plan::Plan& plan) {
  const auto compute = static_cast<double>(plan.predicted.compute.count());
  return 100 * (static_cast<double>(plan.predicted.step.count()) / compute - 1);
}

double waste(const plan::Plan& plan) {
  const auto peak = static_cast<double>(plan.predicted.peak.count());
  return 100 * (static_cast<double>((plan.top() + plan.slab).count()) / peak - 1);
}

void compare(const std::string& name, const std::string& budget_name, const std::vector<planning::Problem>& problems) {
  const auto classes = planning::plan_classes(problems);
  if (!classes) {
    std::printf("| %s | %s | %s | no plans |\n", name.c_str(), problems.front().machine.name.c_str(),
                budget_name.c_str());
    return;
  }
  std::uint64_t table = 0;
  for (const plan::BoundaryEntry& entry : classes->table.entries) table += entry.bytes.count();
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const auto alone = planning::make_pages_planner()->plan(problems[i]);
    const plan::Plan& shared = classes->plans[i];
    const std::size_t violations = plan::validate(problems[i].trace, shared).size() +
                                   plan::validate_boundary(problems[i].trace, shared, classes->table).size();
    std::printf("| %s | %s | %s | %s | %.2f | %.1f %% | %.1f %% | %.2f %% | %.2f %% | %zu |\n", name.c_str(),
                problems[i].machine.name.c_str(), budget_name.c_str(), i == 0 ? "train" : "other",
                static_cast<double>(table) / (1 << 30), overhead(alone.value()), overhead(shared), waste(alone.value()),
                waste(shared), violations);
    std::fflush(stdout);
  }
}

void measure(const std::string& path, const char* machine_name) {
  const trace::Trace train = trace::read_trace_file(path);
  const trace::Trace other = plan::other_class(train, 1);
  const machine::Machine machine =
      machine::find_machine(path.substr(0, path.find_last_of('/')) + "/machines/" + machine_name + ".machine");
  const auto slash = path.find_last_of('/');
  const std::string name = path.substr(slash + 1, path.rfind('.') - slash - 1);
  const plan::Liveness liveness(train);
  const base::Bytes floor = std::max(liveness.floor(), plan::Liveness(other).floor());
  const std::vector<std::pair<std::string, base::Bytes>> budgets = {
      {"50 %", base::Bytes(liveness.need().count() / 100 * 50)},
      {"33 %", base::Bytes(liveness.need().count() / 100 * 33)},
      {"25 %", base::Bytes(liveness.need().count() / 100 * 25)},
      {"1.03 floors", base::Bytes(floor.count() / 100 * 103 + 100)}};
  for (const auto& [budget_name, budget] : budgets)
    compare(name, budget_name,
            {{.trace = train, .machine = machine, .budget = budget},
             {.trace = other, .machine = machine, .budget = budget}});
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) paths = {"test/data/resnet50.trace", "test/data/unet.trace", "test/data/gpt2.trace"};
  std::printf(
      "| trace | machine | budget | class | table_GiB | overhead alone | under the table | waste alone | under the "
      "table "
      "| violations |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& path : paths) {
    for (const char* machine : {"m40-12g", "h200-141g"}) measure(path, machine);
  }
  return 0;
}
