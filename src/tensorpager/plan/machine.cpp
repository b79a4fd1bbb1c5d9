#include "tensorpager/plan/machine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tensorpager/base/errors.h"

namespace tensorpager::plan {
namespace {

using trace::Precision;
using namespace std::chrono_literals;

/// What large convolutions and products reach of the stated peak, and what pointwise ops reach of the memory's rate.
/// One figure each for all ops: real convolutions vary from 20 to 70 %.
constexpr double kArithmeticEfficiency = 0.6;
constexpr double kMemoryEfficiency = 0.8;
constexpr auto kLaunch = 3us;
constexpr auto kCopyLatency = 10us;

struct Accelerator {
  const char* name;
  base::Bytes memory;
  double float32;      // flops per second; TF32 where there is one
  double half;         // bfloat16 and float16
  double float64;      //
  double memory_rate;  // bytes per second
  double link_rate;    // bytes per second, each direction
};

// Peaks from the vendor's data sheets; links as PCIe 3, 4 and 5 deliver them.
constexpr std::array kAccelerators = {
    Accelerator{"m40-12g", base::Bytes(std::uint64_t{12} << 30), 7e12, 7e12, 0.2e12, 288e9, 12e9},
    Accelerator{"a100-40g", base::Bytes(std::uint64_t{40} << 30), 156e12, 312e12, 19.5e12, 1555e9, 24e9},
    Accelerator{"h200-141g", base::Bytes(std::uint64_t{141} << 30), 495e12, 989e12, 67e12, 4800e9, 50e9}};

/// At most eleven days, so that sums cannot wrap, however slow a link a file states.
Nanoseconds nanoseconds_of(double seconds) { return Nanoseconds(std::llround(std::min(seconds * 1e9, 1e15))); }

Machine machine_of(const Accelerator& a) {
  const Link link{.latency = kCopyLatency, .steps = {{.from = base::Bytes(0), .bytes_per_second = a.link_rate}}};
  return {.name = a.name,
          .memory = a.memory,
          .out = link,
          .in = link,
          .time_scale = 1,
          .flop_rate = {{Precision::kFloat32, a.float32 * kArithmeticEfficiency},
                        {Precision::kBfloat16, a.half * kArithmeticEfficiency},
                        {Precision::kFloat16, a.half * kArithmeticEfficiency},
                        {Precision::kFloat64, a.float64 * kArithmeticEfficiency}},
          .byte_rate = a.memory_rate * kMemoryEfficiency,
          .launch = kLaunch};
}

}  // namespace

Nanoseconds Link::time_of(base::Bytes bytes) const {
  const Step* step = &steps.front();
  for (const Step& next : steps) {
    if (next.from <= bytes) step = &next;
  }
  return latency + nanoseconds_of(static_cast<double>(bytes.count()) / step->bytes_per_second);
}

double Link::fastest() const { return std::ranges::max_element(steps, {}, &Step::bytes_per_second)->bytes_per_second; }

Nanoseconds Machine::time_of(const trace::Op& op) const {
  const bool has_work = op.flops > 0 || op.moved > base::Bytes(0);
  if (byte_rate == 0 || (!has_work && op.time > Nanoseconds(0)))
    return nanoseconds_of(std::chrono::duration<double>(op.time).count() * time_scale);
  if (!has_work) return Nanoseconds(0);
  const auto rate = flop_rate.find(op.precision);
  const double arithmetic = rate == flop_rate.end() ? 0 : static_cast<double>(op.flops) / rate->second;
  return nanoseconds_of(std::max(arithmetic, static_cast<double>(op.moved.count()) / byte_rate)) + launch;
}

double time_scale_between(const trace::Trace& there, const trace::Trace& here) {
  if (there.ops.size() != here.ops.size())
    throw base::InvalidArgument("one trace has " + std::to_string(there.ops.size()) + " ops and the other " +
                                std::to_string(here.ops.size()) + ": write two traces of the same window");
  std::chrono::duration<double> all_there{}, all_here{};
  for (std::size_t op = 0; op < there.ops.size(); ++op) {
    if (there.ops[op].name != here.ops[op].name)
      throw base::InvalidArgument("op " + std::to_string(op) + " is " + there.ops[op].name + " in one trace and " +
                                  here.ops[op].name + " in the other: write two traces of the same window");
    all_there += there.ops[op].time;
    all_here += here.ops[op].time;
  }
  if (all_there.count() <= 0 || all_here.count() <= 0)
    throw base::InvalidArgument("the ops of one of the traces took no time: record it with `tensorpager trace`");
  return all_here / all_there;
}

Machine with_link_share(const Machine& machine, double share) {
  Machine slower = machine;
  for (Link* link : {&slower.out, &slower.in}) {
    for (Link::Step& step : link->steps) step.bytes_per_second *= share;
  }
  return slower;
}

Machine named_machine(const std::string& name) {
  const auto* found = std::ranges::find(kAccelerators, name, &Accelerator::name);
  if (found != kAccelerators.end()) return machine_of(*found);
  std::string all;
  for (const Accelerator& accelerator : kAccelerators) all += std::string(all.empty() ? "" : ", ") + accelerator.name;
  throw base::InvalidArgument("'" + name + "' is no machine; write a file of one, or one of " + all);
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kAccelerators));
  for (const Accelerator& accelerator : kAccelerators) names.emplace_back(accelerator.name);
  return names;
}

}  // namespace tensorpager::plan
