// Runs the real pager on a virtual clock: it is notified of the ops of a trace as of those of a program, and follows a
// plan; only the bytes are missing. The simulator computes what a plan predicts; this measures what the pager achieves,
// with programs that do as planned and with those that do not.
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
  /// Follows the plans of one or several classes of windows. The plans have one budget and one boundary, and storages
  /// that are alive at the begin of windows have the same numbers in all traces. All must outlive this. At first, what
  /// the plans have in memory at the begin is resident, the rest of the entry paged out.
  PagerRun(const std::vector<Class>& classes, const machine::Machine& machine);
  PagerRun(const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine)
      : PagerRun({{trace, plan}}, machine) {}
  ~PagerRun();
  PagerRun(const PagerRun&) = delete;
  PagerRun& operator=(const PagerRun&) = delete;

  struct Window {
    plan::Prediction measured;  // to compare with the plan's prediction
    machine::Nanoseconds stalled_for_page_outs{0};
    machine::Nanoseconds stalled_for_page_ins{0};
    machine::Nanoseconds handled{0};  // CPU time of transfers
    std::uint64_t followed_ops = 0;
    std::uint64_t misses = 0;
    std::uint64_t ops_as_planned = 0;  // as the pager counts them: as many bytes resident as planned
  };
  /// Runs a planned window, or another that begins and ends with the same storages. Throws OverBudget if an op does not
  /// fit.
  Window run(const trace::Trace& window);

  pager::Statistics counts();

 private:
  struct Parts;
  void run_op(const trace::Trace& window, const trace::Op& op, Window& result);
  void handle_transfers(Window& result);

  std::unique_ptr<Parts> parts_;
};

/// Runs three planned windows and returns the third: the steady state.
PagerRun::Window follow(const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine);

}  // namespace tensorpager::sim
