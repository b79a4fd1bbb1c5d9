// The pager itself, on a virtual clock: ops of a trace are told to it as a program's would be, a plan says what moves,
// and nothing but the bytes is left out. The simulator says what a plan promises; this says what the pager makes of it,
// where the program does as planned and where it does not.
#pragma once

#include <memory>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/machine/machine.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::sim {

class PagerRun {
 public:
  struct Class {
    const trace::Trace& trace;
    const plan::Plan& plan;  // valid for it
  };
  /// Of windows of one class or several: the plans have one budget and one boundary, and what is alive at a window's
  /// begin has the same numbers in all traces. All must outlive this. What the plans have in memory at the begin is
  /// there, the rest of the entry is below.
  PagerRun(const std::vector<Class>& classes, const machine::Machine& machine);
  PagerRun(const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine)
      : PagerRun({{trace, plan}}, machine) {}
  ~PagerRun();
  PagerRun(const PagerRun&) = delete;
  PagerRun& operator=(const PagerRun&) = delete;

  struct Window {
    plan::Prediction measured;  // to compare with what the plan promises
    machine::Nanoseconds stalled_for_page_outs{0};
    machine::Nanoseconds stalled_for_page_ins{0};
    machine::Nanoseconds handled{0};  // transfers
    std::uint64_t followed_ops = 0;
    std::uint64_t misses = 0;
    std::uint64_t ops_as_planned = 0;  // of the pager's account: as many bytes resident as planned
  };
  /// Runs a planned window, or another that begins and ends with the same storages. Throws OverBudget where an op does
  /// not fit.
  Window run(const trace::Trace& window);

  pager::Statistics counts();

 private:
  struct Parts;
  void run_op(const trace::Trace& window, const trace::Op& op, Window& result);
  void handle_transfers(Window& result);

  std::unique_ptr<Parts> parts_;
};

/// The third of three planned windows: the steady state.
PagerRun::Window follow(const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine);

}  // namespace tensorpager::sim
