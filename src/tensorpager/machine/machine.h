// A machine for the planner and the simulator: how long ops take, and how long transfers take on the two links.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/base/flop_rates.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::machine {

using Nanoseconds = std::chrono::nanoseconds;

/// One direction. A transfer of n bytes takes latency + n / rate, with the rate of the last step at or below n.
struct Link {
  struct Step {
    base::Bytes from;         // the smallest transfer that has this rate
    double bytes_per_second;  // above 0
  };
  Nanoseconds latency{0};
  Nanoseconds handling{0};  // CPU time of each transfer, on the thread that computes: it maps and protects pages
  std::vector<Step> steps;  // by ascending size; at least one; the first is also for all smaller transfers

  Nanoseconds time_of(base::Bytes bytes) const;
  double fastest() const;  // bytes per second
};

/// The properties of a CUDA card that a program sees by itself: torch chooses kernels by them.
struct Card {
  std::uint32_t major = 0, minor = 0;  // compute capability
  std::uint32_t multiprocessors = 0;
  base::Bytes memory = {};  // as CUDA reports it, a little less than the card's name says
};

/// If the machine has rates, the time of an op with known work is a roofline: the longer of its arithmetic and its
/// movement of bytes at these rates, plus a launch. Otherwise it is the measured time, scaled. A replay takes as long
/// as its op, and for each storage that it rebuilds the handling of a page-out and a page-in: the block was taken away
/// and is mapped again.
struct Machine {
  std::string name;
  base::Bytes memory = base::kUnlimited;
  Link out;                       // page-outs
  Link in;                        // page-ins
  double time_scale = 1;          // factor of measured op times
  base::FlopRates flop_rates;     // what ops reach
  double byte_rate = 0;           // bytes per second that ops reach; 0: no roofline
  Nanoseconds launch{0};          // added to the roofline of an op that does anything
  std::optional<Card> card = {};  // of an accelerator that can be emulated

  Nanoseconds time_of(const trace::Op& op) const;
  /// Of all ops, if nothing stalls.
  Nanoseconds time_of_ops(const trace::Trace& trace) const;

 private:
  Nanoseconds time_of_kernels(const trace::Op& op) const;
};

/// The factor that turns op times recorded `there` into those `here`, by their sums. The traces are of one window;
/// throws InvalidArgument if their ops differ or have no times.
double time_scale_between(const trace::Trace& there, const trace::Trace& here);

/// The machine with its links at `share` of their rates.
Machine with_link_share(const Machine& machine, double share);

/// Throws InvalidArgument with the names of all machines, if `name` is not one of them.
Machine named_machine(const std::string& name);
std::vector<std::string> machine_names();

}  // namespace tensorpager::machine
