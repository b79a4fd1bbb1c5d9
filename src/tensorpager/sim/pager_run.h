// The pager itself, on a virtual clock: ops of a trace are told to it as a program's would be, a plan says what moves,
// and nothing but the bytes is left out. The simulator says what a plan promises; this says what the pager makes of it,
// where the program does as planned and where it does not.
#pragma once

#include <memory>
#include <vector>

#include "tensorpager/base/bytes.h"
#include "tensorpager/pager/statistics.h"
#include "tensorpager/plan/machine.h"
#include "tensorpager/plan/plan.h"
#include "tensorpager/trace/record.h"

namespace tensorpager::sim {

class PagerRun {
 public:
  /// The plan must be valid for the trace. All three must outlive this. What the plan has in memory at the window's
  /// begin is there, the rest of the entry is below.
  PagerRun(const trace::Trace& trace, const plan::Plan& plan, const plan::Machine& machine);
  ~PagerRun();
  PagerRun(const PagerRun&) = delete;
  PagerRun& operator=(const PagerRun&) = delete;

  struct Window {
    plan::Prediction measured;  // to compare with what the plan promises
    plan::Nanoseconds stalled_for_page_outs{0};
    plan::Nanoseconds stalled_for_page_ins{0};
    plan::Nanoseconds handled{0};  // transfers
    std::uint64_t followed_ops = 0;
    std::uint64_t misses = 0;
    std::uint64_t ops_as_planned = 0;  // of the pager's account: as many bytes resident as planned
    bool ends_in_step = false;         // the plan's next op is the window's first
  };
  /// Runs the planned window, or another that begins and ends with the same storages; those of the plan's trace have
  /// the same numbers there. Throws OverBudget where an op does not fit.
  Window run(const trace::Trace& window);

  pager::Statistics counts();

 private:
  struct Parts;
  void run_op(const trace::Trace& window, const trace::Op& op, Window& result);
  void handle_transfers(Window& result);

  std::unique_ptr<Parts> parts_;
};

/// The third of three planned windows: the steady state.
PagerRun::Window follow(const trace::Trace& trace, const plan::Plan& plan, const plan::Machine& machine);

}  // namespace tensorpager::sim
