#include "tensorpager/fit/data_parallel.h"

#include <algorithm>
#include <optional>

#include "tensorpager/plan/rewriting.h"
#include "tensorpager/sim/simulator.h"

namespace tensorpager::fit {
namespace {

constexpr base::Bytes kFirstBucket(std::uint64_t{1} << 20);
constexpr base::Bytes kBucket(std::uint64_t{25} << 20);

struct Gradient {
  base::Bytes bytes;
  std::uint32_t last_written;  // by an op of the backward pass
  std::uint32_t first_used;    // by an op of an optimizer
};

std::vector<Gradient> gradients_of(const trace::Trace& trace) {
  struct Ops {
    std::optional<std::uint32_t> written, used;
  };
  std::vector<Ops> ops(trace.storages.size());
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    const trace::Op& op = trace.ops[i];
    for (const auto* list : {&op.reads, &op.writes, &op.births}) {
      for (const trace::StorageId id : *list) {
        Ops& its = ops[trace::index(id)];
        if (op.optimizer && its.written && !its.used) its.used = i;
        if (op.backward && list != &op.reads) its = {.written = i, .used = std::nullopt};
      }
    }
  }
  std::vector<Gradient> gradients;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].used) gradients.push_back({trace.storages[i].bytes, *ops[i].written, *ops[i].used});
  }
  std::ranges::stable_sort(gradients, {}, &Gradient::last_written);
  return gradients;
}

}  // namespace

Clock clock_of(const trace::Trace& trace, const machine::Machine& machine) {
  Clock clock;
  for (const trace::Op& op : trace.ops) {
    clock.starts.push_back(clock.step);
    clock.step += machine.time_of(op);
    clock.ends.push_back(clock.step);
  }
  return clock;
}

Clock clock_of(const trace::Trace& trace, const machine::Machine& machine, const plan::Plan& plan) {
  const plan::Rewriting window = plan::rewrite(trace, plan.replays).value();
  const sim::Outcome outcome = sim::simulate(trace, plan, machine);
  Clock clock{.starts = {}, .ends = {}, .step = outcome.measured.step};
  for (std::size_t i = 0; i < window.entries.size(); ++i) {
    if (window.entries[i].replayed) continue;
    clock.starts.push_back(outcome.starts[i]);
    clock.ends.push_back(outcome.starts[i] + machine.time_of(window.trace.ops[i]));
  }
  return clock;
}

Nanoseconds all_reduce_time(base::Bytes bytes, const Ranks& ranks) {
  if (ranks.count < 2) return Nanoseconds(0);
  const double steps = 2.0 * (ranks.count - 1);
  const double seconds = static_cast<double>(bytes.count()) / ranks.count / ranks.bytes_per_second;
  const std::chrono::duration<double> all(steps * (seconds + std::chrono::duration<double>(ranks.latency).count()));
  return std::chrono::duration_cast<Nanoseconds>(all);
}

base::Bytes gradient_bytes(const trace::Trace& trace) {
  base::Bytes sum;
  for (const Gradient& gradient : gradients_of(trace)) sum = sum + gradient.bytes;
  return sum;
}

Reduction reduce_gradients(const trace::Trace& trace, const Clock& clock, const Ranks& ranks) {
  Reduction found;
  Nanoseconds done{0};                      // when the last bucket is
  Nanoseconds needed = Nanoseconds::max();  // when the optimizer would begin
  base::Bytes bucket;
  const std::vector<Gradient> gradients = gradients_of(trace);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    bucket = bucket + gradients[i].bytes;
    found.gradients = found.gradients + gradients[i].bytes;
    needed = std::min(needed, clock.starts[gradients[i].first_used]);
    if (bucket < (found.buckets == 0 ? kFirstBucket : kBucket) && i + 1 < gradients.size()) continue;
    const Nanoseconds time = all_reduce_time(bucket, ranks);
    done = std::max(done, clock.ends[gradients[i].last_written]) + time;
    found.transfers += time;
    ++found.buckets;
    bucket = {};
  }
  if (!gradients.empty()) found.exposed = std::max(Nanoseconds(0), done - needed);
  found.step = clock.step + found.exposed;
  return found;
}

}  // namespace tensorpager::fit
