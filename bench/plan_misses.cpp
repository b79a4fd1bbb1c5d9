// What plans are worth where programs do not quite do what was planned: two classes of windows alternate under one
// boundary table, and a share of their ops is inserted, left out or grown.
//
//   build/dev/bench/bench_plan_misses [TRACE...]
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "../test/plan/synthetic_traces.h"
#include "tensorpager/plan/boundary.h"
#include "tensorpager/sim/follower.h"
#include "tensorpager/trace/trace_io.h"

namespace {

using namespace tensorpager;

constexpr int kWindows = 20;

double overhead(const sim::Followed& followed) {
  return 100 * (static_cast<double>(followed.time.count()) / static_cast<double>(followed.compute.count()) - 1);
}

std::uint32_t at_share(std::vector<std::uint32_t> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void measure(const std::string& path, const char* machine_name, unsigned percent) {
  const trace::Trace train = trace::read_trace_file(path);
  const trace::Trace evaluate = plan::other_class(train, 1);
  const plan::Machine machine = plan::named_machine(machine_name);
  const base::Bytes budget(plan::Liveness(train).need().count() * percent / 100);
  const auto classes = plan::plan_classes({{.trace = train, .machine = machine, .budget = budget},
                                           {.trace = evaluate, .machine = machine, .budget = budget}});
  if (!classes) return;
  for (const double share : {0.0, 0.005, 0.05}) {
    std::mt19937 random(1);
    sim::Follower follower(machine, budget);
    for (int window = 0; window < kWindows; ++window) {
      const trace::Trace& trace = window % 2 == 0 ? train : evaluate;
      follower.run(trace, classes->plans[static_cast<std::size_t>(window % 2)], sim::with_misses(trace, share, random));
    }
    const sim::Followed& all = follower.outcome();
    const auto slash = path.find_last_of('/');
    std::printf("| %s | %s | %u %% | %.1f %% | %.1f %% | %llu | %u | %u | %u | %llu | %llu |\n",
                path.substr(slash + 1, path.rfind('.') - slash - 1).c_str(), machine_name, percent, share * 100,
                overhead(all), static_cast<unsigned long long>(all.misses), at_share(all.off_plan, 0.5),
                at_share(all.off_plan, 0.9), at_share(all.off_plan, 1), static_cast<unsigned long long>(all.on_demand),
                static_cast<unsigned long long>(all.lost));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) paths = {"test/data/resnet50.trace", "test/data/unet.trace", "test/data/gpt2.trace"};
  std::printf(
      "| trace | machine | budget | of ops missed | overhead | misses | off plan: median | p90 | most | on demand | "
      "lost |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& path : paths) {
    for (const char* machine : {"m40-12g", "h200-141g"}) {
      for (const unsigned percent : {50u, 33u}) measure(path, machine, percent);
    }
  }
  return 0;
}
