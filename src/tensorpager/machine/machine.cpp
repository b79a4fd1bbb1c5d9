#include "tensorpager/machine/machine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tensorpager/base/errors.h"

namespace tensorpager::machine {
namespace {

using base::OpClass;
using base::Precision;
using namespace std::chrono_literals;

constexpr auto kLaunch = 3us;
constexpr auto kCopyLatency = 10us;

/// The shares of the stated peak that large ops of a class reach, forward and backward passes together.
struct Shares {
  double product, convolution, attention, recurrent;
};

struct Accelerator {
  const char* name;
  std::uint64_t memory;  // GiB
  double float32;        // flops per second
  double tf32;           // as float32 where there is none
  double half;           // bfloat16 and float16
  double float64;        //
  double memory_rate;    // bytes per second
  double link_rate;      // bytes per second, each direction
  std::uint32_t major, minor, multiprocessors;
  double visible;         // GiB that CUDA reports
  Shares float32_shares;  // of tf32 in what cuDNN computes: convolutions and recurrent layers
  double tf32_share;      // of products, if a program allows it
  Shares half_shares;     //
  double memory_share;    //
};

// Peaks, compute capability and multiprocessors from the vendor's data sheets (SXM boards where there are several);
// links as PCIe 3, 4 and 5 deliver them, GH200's as NVLink-C2C is stated. What CUDA reports of the memory is from
// torch's out-of-memory messages on such cards. docs/machines.md has the sources of the shares; above 1 are cards that
// run faster than the clock of their data sheet.
constexpr Shares kM40{0.65, 0.6, 0.33, 0.45}, kTitanX{0.75, 0.66, 0.33, 0.5};
constexpr Shares kV100{0.87, 0.75, 0.35, 0.67}, kV100Half{0.8, 0.43, 0.22, 0.23};
constexpr Shares kA100{0.95, 0.22, 0.35, 0.26}, kA100Half{0.83, 0.45, 0.59, 0.23};
constexpr Shares kH100{0.78, 0.13, 0.35, 0.19}, kH100Half{0.78, 0.33, 0.47, 0.185}, kGh200Half{0.82, 0.33, 0.47, 0.185};
constexpr Shares kAda{0.65, 0.32, 0.35, 0.39}, kAdaHalf{0.97, 0.44, 0.73, 0.37};
constexpr Shares kBlackwell{0.63, 0.32, 0.35, 0.39}, kBlackwellHalf{1.08, 0.45, 0.69, 0.37};
constexpr std::array kAccelerators = {Accelerator{.name = "m40-12g",
                                                  .memory = 12,
                                                  .float32 = 7e12,
                                                  .tf32 = 7e12,
                                                  .half = 7e12,
                                                  .float64 = 0.2e12,
                                                  .memory_rate = 288e9,
                                                  .link_rate = 12e9,
                                                  .major = 5,
                                                  .minor = 2,
                                                  .multiprocessors = 24,
                                                  .visible = 11.92,
                                                  .float32_shares = kM40,
                                                  .tf32_share = 0.65,
                                                  .half_shares = kM40,
                                                  .memory_share = 0.75},
                                      Accelerator{.name = "titanx-12g",
                                                  .memory = 12,
                                                  .float32 = 6.7e12,
                                                  .tf32 = 6.7e12,
                                                  .half = 6.7e12,
                                                  .float64 = 0.2e12,
                                                  .memory_rate = 336e9,
                                                  .link_rate = 12e9,
                                                  .major = 5,
                                                  .minor = 2,
                                                  .multiprocessors = 24,
                                                  .visible = 11.92,
                                                  .float32_shares = kTitanX,
                                                  .tf32_share = 0.75,
                                                  .half_shares = kTitanX,
                                                  .memory_share = 0.79},
                                      Accelerator{.name = "v100-16g",
                                                  .memory = 16,
                                                  .float32 = 15.7e12,
                                                  .tf32 = 15.7e12,
                                                  .half = 125e12,
                                                  .float64 = 7.8e12,
                                                  .memory_rate = 900e9,
                                                  .link_rate = 12e9,
                                                  .major = 7,
                                                  .minor = 0,
                                                  .multiprocessors = 80,
                                                  .visible = 15.77,
                                                  .float32_shares = kV100,
                                                  .tf32_share = 0.87,
                                                  .half_shares = kV100Half,
                                                  .memory_share = 0.88},
                                      Accelerator{.name = "a100-40g",
                                                  .memory = 40,
                                                  .float32 = 19.5e12,
                                                  .tf32 = 156e12,
                                                  .half = 312e12,
                                                  .float64 = 19.5e12,
                                                  .memory_rate = 1555e9,
                                                  .link_rate = 24e9,
                                                  .major = 8,
                                                  .minor = 0,
                                                  .multiprocessors = 108,
                                                  .visible = 39.39,
                                                  .float32_shares = kA100,
                                                  .tf32_share = 0.7,
                                                  .half_shares = kA100Half,
                                                  .memory_share = 0.85},
                                      Accelerator{.name = "a100-80g",
                                                  .memory = 80,
                                                  .float32 = 19.5e12,
                                                  .tf32 = 156e12,
                                                  .half = 312e12,
                                                  .float64 = 19.5e12,
                                                  .memory_rate = 2039e9,
                                                  .link_rate = 24e9,
                                                  .major = 8,
                                                  .minor = 0,
                                                  .multiprocessors = 108,
                                                  .visible = 79.15,
                                                  .float32_shares = kA100,
                                                  .tf32_share = 0.7,
                                                  .half_shares = kA100Half,
                                                  .memory_share = 0.85},
                                      Accelerator{.name = "h100-80g",
                                                  .memory = 80,
                                                  .float32 = 67e12,
                                                  .tf32 = 495e12,
                                                  .half = 989e12,
                                                  .float64 = 67e12,
                                                  .memory_rate = 3350e9,
                                                  .link_rate = 50e9,
                                                  .major = 9,
                                                  .minor = 0,
                                                  .multiprocessors = 132,
                                                  .visible = 79.1,
                                                  .float32_shares = kH100,
                                                  .tf32_share = 0.8,
                                                  .half_shares = kH100Half,
                                                  .memory_share = 0.87},
                                      Accelerator{.name = "h200-141g",
                                                  .memory = 141,
                                                  .float32 = 67e12,
                                                  .tf32 = 495e12,
                                                  .half = 989e12,
                                                  .float64 = 67e12,
                                                  .memory_rate = 4800e9,
                                                  .link_rate = 50e9,
                                                  .major = 9,
                                                  .minor = 0,
                                                  .multiprocessors = 132,
                                                  .visible = 139.8,
                                                  .float32_shares = kH100,
                                                  .tf32_share = 0.8,
                                                  .half_shares = kH100Half,
                                                  .memory_share = 0.85},
                                      Accelerator{.name = "gh200-96g",
                                                  .memory = 96,
                                                  .float32 = 67e12,
                                                  .tf32 = 495e12,
                                                  .half = 989e12,
                                                  .float64 = 67e12,
                                                  .memory_rate = 4000e9,
                                                  .link_rate = 450e9,
                                                  .major = 9,
                                                  .minor = 0,
                                                  .multiprocessors = 132,
                                                  .visible = 94.5,
                                                  .float32_shares = kH100,
                                                  .tf32_share = 0.8,
                                                  .half_shares = kGh200Half,
                                                  .memory_share = 0.8},
                                      Accelerator{.name = "rtx4090-24g",
                                                  .memory = 24,
                                                  .float32 = 82.6e12,
                                                  .tf32 = 82.6e12,
                                                  .half = 165.2e12,
                                                  .float64 = 1.3e12,
                                                  .memory_rate = 1008e9,
                                                  .link_rate = 24e9,
                                                  .major = 8,
                                                  .minor = 9,
                                                  .multiprocessors = 128,
                                                  .visible = 23.6,
                                                  .float32_shares = kAda,
                                                  .tf32_share = 1,
                                                  .half_shares = kAdaHalf,
                                                  .memory_share = 0.91},
                                      Accelerator{.name = "rtx5090-32g",
                                                  .memory = 32,
                                                  .float32 = 104.8e12,
                                                  .tf32 = 104.8e12,
                                                  .half = 209.5e12,
                                                  .float64 = 1.6e12,
                                                  .memory_rate = 1792e9,
                                                  .link_rate = 50e9,
                                                  .major = 12,
                                                  .minor = 0,
                                                  .multiprocessors = 170,
                                                  .visible = 31.4,
                                                  .float32_shares = kBlackwell,
                                                  .tf32_share = 1.08,
                                                  .half_shares = kBlackwellHalf,
                                                  .memory_share = 0.86}};
constexpr double kGiB = 1 << 30;
constexpr base::Bytes kPageOfCard = base::kHugePage;  // CUDA hands memory out in 2 MiB

/// At most eleven days, so that sums cannot wrap even for a very slow link in a file.
Nanoseconds nanoseconds_of(double seconds) { return Nanoseconds(std::llround(std::min(seconds * 1e9, 1e15))); }

/// torch has cuDNN use TF32 in convolutions and recurrent layers of float32, and nothing else unless a program says so.
base::FlopRates flop_rates_of(const Accelerator& a) {
  base::FlopRates rates;
  const auto set = [&](Precision precision, double peak, double peak_of_cudnn, const Shares& shares) {
    rates.set(OpClass::kProduct, precision, peak * shares.product);
    rates.set(OpClass::kConvolution, precision, peak_of_cudnn * shares.convolution);
    rates.set(OpClass::kAttention, precision, peak * shares.attention);
    rates.set(OpClass::kRecurrent, precision, peak_of_cudnn * shares.recurrent);
  };
  set(Precision::kFloat32, a.float32, a.tf32, a.float32_shares);
  set(Precision::kBfloat16, a.half, a.half, a.half_shares);
  set(Precision::kFloat16, a.half, a.half, a.half_shares);
  rates.set(OpClass::kProduct, Precision::kFloat64, a.float64 * a.float32_shares.product);
  rates.set(OpClass::kProduct, Precision::kTf32, a.tf32 * a.tf32_share);
  return rates;
}

Machine machine_of(const Accelerator& a) {
  const Link link{.latency = kCopyLatency, .steps = {{.from = base::Bytes(0), .bytes_per_second = a.link_rate}}};
  return {
      .name = a.name,
      .memory = base::Bytes(a.memory << 30),
      .out = link,
      .in = link,
      .time_scale = 1,
      .flop_rates = flop_rates_of(a),
      .byte_rate = a.memory_rate * a.memory_share,
      .launch = kLaunch,
      .card = Card{.major = a.major,
                   .minor = a.minor,
                   .multiprocessors = a.multiprocessors,
                   .memory = base::round_up(base::Bytes(static_cast<std::uint64_t>(a.visible * kGiB)), kPageOfCard)}};
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
  return time_of_kernels(op) + op.rebuilds * (out.handling + in.handling);
}

Nanoseconds Machine::time_of_ops(const trace::Trace& trace) const {
  Nanoseconds sum{0};
  for (const trace::Op& op : trace.ops) sum += time_of(op);
  return sum;
}

Nanoseconds Machine::time_of_kernels(const trace::Op& op) const {
  const bool has_work = op.flops > 0 || op.moved > base::Bytes(0);
  if (byte_rate == 0 || (!has_work && op.time > Nanoseconds(0)))
    return nanoseconds_of(std::chrono::duration<double>(op.time).count() * time_scale);
  if (!has_work) return Nanoseconds(0);
  const double rate = op.flops == 0 ? 0 : flop_rates.of(op.op_class, op.precision);
  const double arithmetic = rate == 0 ? 0 : static_cast<double>(op.flops) / rate;
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

}  // namespace tensorpager::machine
