// How long planning takes, in seconds of wall time and of CPU, at half and a quarter of need: synthetic training steps
// of 1,000 to 1,000,000 ops, or a trace that is repeated until it has as many.
//
//   build/dev/bench/bench_plan [LARGEST [TRACE [PLANNER [THREADS]]]]
//
// TRACE `-`: synthetic ones, whose forward ops may run again. THREADS: as many as there are cores, if not given.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>

#include "../test/plan/synthetic_traces.h"
#include "tensorpager/plan/timing.h"
#include "tensorpager/planning/planner.h"
#include "tensorpager/trace/trace_io.h"

namespace {

using namespace tensorpager;

/// One window of so many micro-steps as make at least `ops`. What lives through the trace's window stays the same
/// storage, and what dies in it is another one each time.
trace::Trace repeated(const trace::Trace& step, std::size_t ops) {
  trace::Trace whole = step;
  whole.ops.clear();
  std::vector<trace::StorageId> now;
  for (std::size_t i = 0; i < step.storages.size(); ++i) now.push_back(plan::storage(i));
  while (whole.ops.size() < ops) {
    const bool is_first = whole.ops.empty();
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (is_first || step.storages[i].entry) continue;
      now[i] = plan::storage(whole.storages.size());
      whole.storages.push_back(step.storages[i]);
    }
    for (trace::Op op : step.ops) {
      for (auto* list : {&op.reads, &op.writes, &op.births, &op.deaths}) {
        for (trace::StorageId& id : *list) id = now[trace::index(id)];
      }
      whole.ops.push_back(std::move(op));
    }
  }
  trace::check(whole);
  return whole;
}

trace::Trace synthetic(std::size_t ops) {
  trace::Trace made = plan::layered_trace(ops);
  for (trace::Op& op : made.ops) {
    if (op.name == "linear" || op.name == "relu") op.purity = trace::Purity::kPure;
  }
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t largest = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1'000'000;
  const bool is_synthetic = argc <= 2 || std::string_view(argv[2]) == "-";
  trace::Trace step;
  if (!is_synthetic) step = trace::read_trace_file(argv[2]);
  const auto planner = argc > 3 ? planning::make_planner(argv[3]) : planning::make_pages_planner();
  const unsigned threads =
      argc > 4 ? static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10)) : std::thread::hardware_concurrency();
  const machine::Machine machine = machine::named_machine("m40-12g");
  std::printf("%10s %8s %10s %10s %10s %10s\n", "ops", "budget", "wall s", "CPU s", "overhead", "rows");
  for (std::size_t ops = 1000; ops <= largest; ops *= 10) {
    const trace::Trace trace = is_synthetic ? synthetic(ops) : repeated(step, ops);
    const plan::Liveness liveness(trace);
    for (const unsigned percent : {50u, 25u}) {
      const base::Bytes budget(liveness.need().count() / 100 * percent);
      const std::clock_t begin = std::clock();
      const auto wall_begin = std::chrono::steady_clock::now();
      const auto result =
          planner->plan({.trace = trace, .machine = machine, .budget = budget, .options = {.threads = threads}});
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_begin).count();
      if (!result) {
        std::printf("%10zu %7u%% %10.3f %10.3f %10s\n", trace.ops.size(), percent, wall, seconds, "no plan");
        continue;
      }
      const plan::Prediction& predicted = result->predicted;
      const double overhead =
          static_cast<double>(predicted.step.count()) / static_cast<double>(predicted.compute.count()) - 1;
      std::printf("%10zu %7u%% %10.3f %10.3f %9.2f%% %10zu\n", trace.ops.size(), percent, wall, seconds, overhead * 100,
                  result->rows.size());
      std::fflush(stdout);
    }
  }
  return 0;
}
