// The common parts of the verbs about plans: options, reading files, and the figures of a plan.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tensorpager/planning/planner.h"
#include "tensorpager/sim/simulator.h"

namespace tensorpager::cli {

struct PlanningOptions {
  std::string trace;
  std::string budget;
  std::string machine;
  std::string planner = "pages";
  double reserve = 2;         // percent
  double link_share = 75;     // percent
  std::string boundary = {};  // file of a boundary table; empty: none
};

/// Adds the trace, --budget, --machine, --planner, --reserve and --link-share.
void add_planning_options(CLI::App& verb, PlanningOptions& options);
void add_machine_option(CLI::App& verb, std::string& machine);

/// A percentage refers to the trace's need. Throws InvalidArgument.
base::Bytes read_budget(const std::string& text, const plan::Liveness& liveness);
planning::Options read_planning(const PlanningOptions& options);

/// Reads the files that the options name, and makes a plan. `%` in a budget refers to the trace's need.
class Planning {
 public:
  explicit Planning(const PlanningOptions& options);

  const trace::Trace& trace() const { return trace_; }
  const machine::Machine& machine() const { return machine_; }
  const plan::Liveness& liveness() const { return liveness_; }
  const base::Result<plan::Plan, planning::Infeasible>& result() const { return result_; }
  base::Bytes budget() const { return budget_; }

  /// Throws NotPossible if there is no plan: how many bytes are missing, and at which op.
  void require_plan() const;

 private:
  base::Result<plan::Plan, planning::Infeasible> make_plan(const PlanningOptions& options) const;

  trace::Trace trace_;
  machine::Machine machine_;
  plan::Liveness liveness_;
  base::Bytes budget_;
  base::Result<plan::Plan, planning::Infeasible> result_;
  std::string path_;
};

/// Throws NotPossible: by how many bytes `path` does not fit, and at which op.
[[noreturn]] void fail_to_fit(const std::string& path, const trace::Trace& trace, base::Bytes budget,
                              const planning::Infeasible& why);

/// Throws NotPossible with the first violation, if the plan is not valid for the trace.
void require_valid(const trace::Trace& trace, const plan::Plan& plan, const std::string& path);

/// The figures that `simulate` prints for a plan.
struct Figures {
  Figures(const trace::Trace& trace, const plan::Liveness& liveness, const plan::Plan& plan,
          const machine::Machine& machine, const sim::Outcome& outcome);

  double step_seconds;
  double overhead;              // step over the compute of the trace, minus 1
  double lower_bound_overhead;  // the same for the lower bound, which knows no recomputation
  double recompute_seconds;
  double stall_seconds;
  base::Bytes page_out;
  base::Bytes page_in;
  base::Bytes peak;
  base::Bytes host;        // see plan::host_bytes
  double placement_waste;  // top of the planned blocks and slab over the peak, minus 1
  double caching_waste;    // the same for what torch's caching allocator would reserve for these blocks
};

/// The figures as one line of text.
std::string describe(const Figures& figures);

}  // namespace tensorpager::cli
