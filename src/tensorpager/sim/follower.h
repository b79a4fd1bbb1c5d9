// A model of a pager that follows plans while the program does not quite do what was planned, on the virtual clock of
// one compute engine and two links. It knows real sizes and what is dirty; the plan is its advice on where and when.
//
//   1. A block that no plan knows goes to the reserve, else to the gap whose next planned block comes last, else to
//      where what is evicted is needed last.
//   2. A planned block owns its range: what is there is evicted when an op needs it; a page-in ahead of its op tries
//      again at each op.
//   3. What lies elsewhere than planned stays there until its row ends; its next row is as planned.
//   4. What an op needs before its row goes to that row's range, where it is free until then.
//   5. What an op that was left out would have made is not there, and its rows are void.
// Where an op's own storages are in each other's way, all leaves and they are stacked from the bottom.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensorpager/plan/machine.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/sim/misses.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::sim {

struct Followed {
  std::chrono::nanoseconds time{0};
  std::chrono::nanoseconds compute{0};
  std::uint64_t page_outs = 0;
  std::uint64_t on_demand = 0;               // page-ins that no row was the reason of
  std::uint64_t misses = 0;                  // steps that were not planned
  std::uint64_t lost = 0;                    // page-ins that did not bring the newest bytes
  std::uint64_t does_not_fit = 0;            // ops whose storages are more than the budget; they are skipped
  base::Bytes peak = {};                     // charged, slabs included
  std::vector<std::uint32_t> off_plan = {};  // ops for which a block was elsewhere than planned, of each that was
};

/// All plans have one budget, and share their boundary or are one plan.
class Follower {
 public:
  Follower(const plan::Machine& machine, base::Bytes budget);
  ~Follower();
  Follower(Follower&&) = delete;

  /// The next window of the program.
  void run(const trace::Trace& trace, const plan::Plan& plan, const std::vector<Step>& steps);

  /// Since the beginning. An overlap of blocks, or bytes over the budget, is our bug and throws.
  const Followed& outcome() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tensorpager::sim
