// What plans are worth where programs do not quite do what was planned: the pager itself, on a virtual clock, runs
// windows of two classes in turn under one boundary table, and a share of their ops is inserted, left out or grown.
//
//   build/dev/bench/bench_plan_misses [TRACE...]
#include <cstdio>
#include <string>
#include <vector>

#include "../test/plan/synthetic_traces.h"
#include "tensorpager/base/errors.h"
#include "tensorpager/machine/machine_io.h"
#include "tensorpager/planning/classes.h"
#include "tensorpager/sim/misses.h"
#include "tensorpager/sim/pager_run.h"
#include "tensorpager/trace/trace_io.h"

namespace {

using namespace tensorpager;

constexpr int kWindows = 20;

struct Sum {
  machine::Nanoseconds step{0}, compute{0};
  std::uint64_t ops = 0, unplanned = 0, followed = 0, as_planned = 0;
};

double percent(double part, double whole) { return 100 * part / whole; }

Sum run(sim::PagerRun& pager, const std::vector<sim::PagerRun::Class>& classes, double share) {
  std::mt19937 random(1);
  Sum sum;
  for (int i = 0; i < kWindows; ++i) {
    const trace::Trace& planned = classes[static_cast<std::size_t>(i) % classes.size()].trace;
    const sim::Missed missed = sim::with_misses(planned, share, random);
    const sim::PagerRun::Window window = pager.run(missed.window);
    sum.step += window.measured.step;
    sum.compute += window.measured.compute;
    sum.ops += missed.window.ops.size();
    sum.unplanned += missed.inserted + missed.left_out + missed.grown;
    sum.followed += window.followed_ops;
    sum.as_planned += window.ops_as_planned;
  }
  return sum;
}

void measure(const std::string& path, const char* machine_name, unsigned percent_of_need) {
  const trace::Trace train = trace::read_trace_file(path);
  const trace::Trace evaluate = plan::other_class(train, 1);
  const machine::Machine machine =
      machine::find_machine(path.substr(0, path.find_last_of('/')) + "/machines/" + machine_name + ".machine");
  const base::Bytes budget(plan::Liveness(train).need().count() * percent_of_need / 100);
  const auto plans = planning::plan_classes({{.trace = train, .machine = machine, .budget = budget},
                                             {.trace = evaluate, .machine = machine, .budget = budget}});
  if (!plans) return;
  const std::vector<sim::PagerRun::Class> classes = {{train, plans->plans[0]}, {evaluate, plans->plans[1]}};
  const auto slash = path.find_last_of('/');
  const std::string name = path.substr(slash + 1, path.rfind('.') - slash - 1);
  for (const double share : {0.0, 0.005, 0.05}) {
    std::printf("| %s | %s | %u %% | %.1f %% | ", name.c_str(), machine_name, percent_of_need, share * 100);
    sim::PagerRun pager(classes, machine);
    try {
      const Sum sum = run(pager, classes, share);
      const auto ops = static_cast<double>(sum.ops);
      std::printf(
          "%llu | %.1f %% | %.1f %% | %.1f %% |\n", static_cast<unsigned long long>(sum.unplanned),
          percent(static_cast<double>((sum.step - sum.compute).count()), static_cast<double>(sum.compute.count())),
          percent(static_cast<double>(sum.followed), ops), percent(static_cast<double>(sum.as_planned), ops));
    } catch (const base::OverBudget& error) {
      std::printf("does not fit: %s |\n", error.what());
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) paths = {"test/data/resnet50.trace", "test/data/unet.trace", "test/data/gpt2.trace"};
  std::printf(
      "| trace | machine | budget | of ops missed | misses | overhead | ops followed | ops as planned |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const std::string& path : paths)
    for (const char* machine : {"m40-12g", "h200-141g"})
      for (const unsigned percent_of_need : {50u, 33u}) measure(path, machine, percent_of_need);
  return 0;
}
