#include "tensorpager/sim/simulator.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tensorpager/plan/rewriting.h"

namespace tensorpager::sim {
namespace {

using base::Bytes;
using machine::Nanoseconds;
using plan::Fill;
using plan::Leave;
using plan::Row;
using plan::Stall;
using trace::StorageId;

enum class ActionKind : std::uint8_t { kWait, kTake, kPageIn, kNeed, kRun, kFree, kPageOut };

struct Action {
  std::uint32_t op;
  ActionKind kind;
  std::uint32_t row;
};

/// The actions of a pager, in order: at each op rows leave, others begin, needed page-ins are awaited, the op runs.
std::vector<Action> lower(const plan::Plan& plan) {
  std::vector<std::vector<Action>> before(plan.ops + 1);
  std::vector<std::vector<Action>> needs(plan.ops + 1);
  std::vector<std::vector<Action>> after(plan.ops + 1);
  for (std::uint32_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    auto& at_begin = before[row.begin];
    if (row.wait != 0) at_begin.push_back({row.begin, ActionKind::kWait, i});
    if (row.fill != Fill::kBoundary) at_begin.push_back({row.begin, ActionKind::kTake, i});
    if (row.fill == Fill::kPageIn) {
      at_begin.push_back({row.begin, ActionKind::kPageIn, i});
      needs[row.need].push_back({row.need, ActionKind::kNeed, i});
    }
    if (row.leave == Leave::kPageOut)
      after[row.end].push_back({row.end, ActionKind::kPageOut, i});
    else if (row.leave != Leave::kBoundary)
      after[row.end].push_back({row.end, ActionKind::kFree, i});
  }
  std::vector<Action> actions;
  for (std::uint32_t op = 0; op <= plan.ops; ++op) {
    actions.insert(actions.end(), after[op].begin(), after[op].end());
    actions.insert(actions.end(), before[op].begin(), before[op].end());
    actions.insert(actions.end(), needs[op].begin(), needs[op].end());
    if (op < plan.ops) actions.push_back({op, ActionKind::kRun, 0});
  }
  return actions;
}

/// A queue of transfers in one direction: each begins when the one before it is done.
class LinkQueue {
 public:
  explicit LinkQueue(const machine::Link& link) : link_(link) {}

  /// Returns when the transfer will be done, if it cannot begin before `ready`.
  Nanoseconds submit(Bytes bytes, Nanoseconds ready) {
    idle_from_ = std::max(idle_from_, ready) + link_.time_of(bytes);
    return idle_from_;
  }

 private:
  const machine::Link& link_;
  Nanoseconds idle_from_{0};
};

class VirtualMachine {
 public:
  VirtualMachine(const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine)
      : trace_(trace), plan_(plan), machine_(machine), out_(machine.out), in_(machine.in) {
    std::uint32_t ticket = 0;
    const std::vector<Action> actions = lower(plan);
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kPageOut) row_of_ticket_[++ticket] = action.row;
    }
    for (const Row& row : plan.rows) {
      if (row.fill == Fill::kBoundary) charged_ += row.bytes;
    }
    charged_ += plan.slab;
  }

  Outcome run() {
    const std::vector<Action> actions = lower(plan_);
    for (int window = 0; window < 3; ++window) {
      outcome_ = {};
      begin_ = clock_;
      for (const Action& action : actions) execute(action);
      handle_transfers();
      outcome_.measured.step = clock_ - begin_;
    }
    return std::move(outcome_);
  }

 private:
  struct PageOut {
    std::uint32_t row;
    Nanoseconds done;
    bool is_charged = true;
  };

  void stall_until(Nanoseconds time, const Action& action, Stall::Cause cause) {
    if (time <= clock_) return;
    outcome_.stalls.push_back({action.op, action.row, cause, time - clock_});
    clock_ = time;
  }

  void execute(const Action& action) {
    if (action.kind == ActionKind::kRun) return run_op(action.op);
    const Row& row = plan_.rows[action.row];
    switch (action.kind) {
      case ActionKind::kWait:
        return wait(action, row_of_ticket_[row.wait]);
      case ActionKind::kTake:
        if (row.wait == 0) block_free_from_ = Nanoseconds(0);
        charged_ += row.bytes;
        return;
      case ActionKind::kPageIn:
        outcome_.measured.page_in += row.bytes;
        owed_ += machine_.in.handling;
        arrives_[action.row] = in_.submit(row.bytes, std::max({clock_, below_from_[row.storage], block_free_from_}));
        return;
      case ActionKind::kNeed:
        return stall_until(arrives_[action.row], action, Stall::Cause::kPageIn);
      case ActionKind::kRun:
        return;
      case ActionKind::kFree:
        charged_ -= row.bytes;
        return;
      case ActionKind::kPageOut:
        outcome_.measured.page_out += row.bytes;
        owed_ += machine_.out.handling;
        below_from_[row.storage] = out_.submit(row.bytes, clock_);
        page_outs_.push_back({action.row, below_from_[row.storage]});
        return;
    }
  }

  /// Waits for the newest page-out of a row, and all before it. In the first window it may not have been submitted yet.
  void wait(const Action& action, std::uint32_t page_out) {
    const auto newest = std::find_if(page_outs_.rbegin(), page_outs_.rend(),
                                     [&](const PageOut& candidate) { return candidate.row == page_out; });
    block_free_from_ = newest == page_outs_.rend() ? Nanoseconds(0) : newest->done;
    if (newest == page_outs_.rend()) return;
    if (plan_.rows[action.row].fill != Fill::kPageIn) stall_until(newest->done, action, Stall::Cause::kPageOut);
    for (auto charged = newest; charged != page_outs_.rend() && charged->is_charged; ++charged) {
      charged_ -= plan_.rows[charged->row].bytes;
      charged->is_charged = false;
    }
  }

  void handle_transfers() {
    outcome_.handled += owed_;
    clock_ += std::exchange(owed_, Nanoseconds(0));
  }

  void run_op(std::uint32_t op) {
    handle_transfers();
    outcome_.starts.push_back(clock_ - begin_);
    plan::Prediction& measured = outcome_.measured;
    measured.curve.push_back(charged_);
    measured.peak = std::max(measured.peak, charged_);
    const Nanoseconds time = machine_.time_of(trace_.ops[op]);
    measured.compute += time;
    clock_ += time;
  }

  const trace::Trace& trace_;
  const plan::Plan& plan_;
  const machine::Machine& machine_;
  LinkQueue out_;
  LinkQueue in_;
  Nanoseconds clock_{0};
  Nanoseconds begin_{0};            // of the window
  Nanoseconds owed_{0};             // CPU time of transfers, spent before the next op
  Nanoseconds block_free_from_{0};  // when the block of the row that begins is free, by its wait
  Bytes charged_;
  std::unordered_map<std::uint32_t, std::uint32_t> row_of_ticket_;
  std::unordered_map<std::uint32_t, Nanoseconds> arrives_;  // by row
  std::unordered_map<StorageId, Nanoseconds> below_from_;
  std::vector<PageOut> page_outs_;  // oldest first
  Outcome outcome_;
};

}  // namespace

Outcome simulate(const trace::Trace& trace, const plan::Plan& plan, const machine::Machine& machine) {
  if (plan.replays.empty()) return VirtualMachine(trace, plan, machine).run();
  const trace::Trace rewritten = plan::rewritten(trace, plan);
  return VirtualMachine(rewritten, plan, machine).run();
}

}  // namespace tensorpager::sim
