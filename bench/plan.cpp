// How long planning takes, in seconds of CPU: synthetic training steps of 1,000 to 1,000,000 ops, each at half and a
// quarter of its need.
//
//   build/dev/bench/bench_plan [LARGEST]
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "../test/plan/synthetic_traces.h"
#include "tensorpager/plan/planner.h"
#include "tensorpager/plan/timing.h"

int main(int argc, char** argv) {
  using namespace tensorpager;
  const std::size_t largest = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1'000'000;
  const plan::Machine machine = plan::named_machine("m40-12g");
  std::printf("%10s %8s %10s %10s %10s\n", "ops", "budget", "seconds", "overhead", "rows");
  for (std::size_t ops = 1000; ops <= largest; ops *= 10) {
    const trace::Trace trace = plan::layered_trace(ops);
    const plan::Liveness liveness(trace);
    for (const unsigned percent : {50u, 25u}) {
      const base::Bytes budget(liveness.need().count() / 100 * percent);
      const std::clock_t begin = std::clock();
      const auto result = plan::make_pages_planner()->plan({.trace = trace, .machine = machine, .budget = budget});
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      if (!result) {
        std::printf("%10zu %7u%% %10.3f %10s\n", trace.ops.size(), percent, seconds, "no plan");
        continue;
      }
      const plan::Prediction& predicted = result->predicted;
      const double overhead =
          static_cast<double>(predicted.step.count()) / static_cast<double>(predicted.compute.count()) - 1;
      std::printf("%10zu %7u%% %10.3f %9.2f%% %10zu\n", trace.ops.size(), percent, seconds, overhead * 100,
                  result->rows.size());
      std::fflush(stdout);
    }
  }
  return 0;
}
