// What a session counted. One list of fields, with the unit in each name; every reader (Python, tests, reports) goes
// through it.
#pragma once

#include <cstdint>

namespace tensorpager::pager {

struct Statistics {
  std::uint64_t budget_bytes = 0;
  std::uint64_t peak_bytes = 0;         // charged: blocks, slabs, pooled pages
  std::uint64_t need_bytes = 0;         // peak had nothing been evicted
  std::uint64_t floor_bytes = 0;        // the most that one op of one thread required, with what cannot be evicted
  std::uint64_t over_budget_bytes = 0;  // the most by which an access outside an op exceeded the budget
  std::uint64_t live_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t pooled_bytes = 0;
  std::uint64_t slab_bytes = 0;
  std::uint64_t spill_bytes = 0;   // reserved in the tier below
  std::uint64_t pinned_bytes = 0;  // of pinned memory, taken for what a device pages out
  std::uint64_t ops = 0;
  std::uint64_t page_outs = 0;  // copies made; clean drops not included
  std::uint64_t page_ins = 0;
  std::uint64_t page_out_bytes = 0;
  std::uint64_t page_in_bytes = 0;
  std::uint64_t clean_drops = 0;
  std::uint64_t drops = 0;     // of blocks that a replay can rebuild, without a copy
  std::uint64_t rebuilds = 0;  // of dropped blocks
  std::uint64_t drop_bytes = 0;
  std::uint64_t rebuild_bytes = 0;
  std::uint64_t faults = 0;              // accesses outside ops that found a block absent
  std::uint64_t faults_over_budget = 0;  // of those, for how many no room could be made
  std::uint64_t write_faults = 0;        // first writes that no op announced
  std::uint64_t followed_ops = 0;        // ops that a plan expected
  std::uint64_t resized_ops = 0;         // of followed_ops, of other sizes than planned
  std::uint64_t plan_misses = 0;         // ops other than a plan expected
  std::uint64_t ops_as_planned = 0;      // of followed_ops, with as many bytes resident at begin and end as planned
  std::uint64_t most_ops_as_planned_in_a_row = 0;
  std::uint64_t followed_windows = 0;          // each op of which a plan expected
  std::uint64_t windows_as_planned = 0;        // of followed_windows, each op of which was as planned
  std::uint64_t windows_of_comparisons = 0;    // of the others, in which a replay was compared with what it replaces
  std::uint64_t planned_difference_bytes = 0;  // the most by which charged bytes differed from the plan
  std::uint64_t failed_actions = 0;            // of a plan, that failed; what they were for is done on demand
  std::uint64_t fuzz_page_outs = 0;            // of page_outs and clean_drops, those the fuzzer made
  std::uint64_t replayed_calls = 0;            // that verification compared with two replays
  std::uint64_t replay_differences = 0;        // of replayed_calls, those that a replay did not repeat
  std::uint64_t live_blocks = 0;
  std::uint64_t records = 0;             // block records, those that wait for their last pin included
  std::uint64_t pins = 0;                // blocks pinned by ops now
  std::uint64_t export_bytes = 0;        // in blocks pinned by exports now
  std::uint64_t mappings = 0;            // of the whole process
  std::uint64_t witness_peak_bytes = 0;  // resident size of our addresses by the kernel's count, where sampled
  std::uint64_t system_calls = 0;        // made by the binding to map, move or protect memory
  std::uint64_t populated_bytes = 0;     // fresh pages that the stable binding took, which the machine zeroes
  double handling_seconds = 0;  // CPU time of transfers in ops: to map, protect, submit; the sum of the next two
  double page_out_handling_seconds = 0;
  double page_in_handling_seconds = 0;
  double handling_beside_seconds = 0;  // the same work off the op threads, on transfer threads
  double stall_seconds = 0;            // time ops waited for transfers: the sum of the next two
  double page_out_stall_seconds = 0;
  double page_in_stall_seconds = 0;
  double replay_seconds = 0;  // ops that ran again, without the stalls and the handling meanwhile
  double paging_seconds =
      0;  // stalls, handling, replays and all else that paging took of ops, while recorded or followed

  /// Stalls and handling.
  double seconds_of_transfers() const {
    return page_out_handling_seconds + page_in_handling_seconds + page_out_stall_seconds + page_in_stall_seconds;
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    visit("budget_bytes", budget_bytes);
    visit("peak_bytes", peak_bytes);
    visit("need_bytes", need_bytes);
    visit("floor_bytes", floor_bytes);
    visit("over_budget_bytes", over_budget_bytes);
    visit("live_bytes", live_bytes);
    visit("resident_bytes", resident_bytes);
    visit("pooled_bytes", pooled_bytes);
    visit("slab_bytes", slab_bytes);
    visit("spill_bytes", spill_bytes);
    visit("pinned_bytes", pinned_bytes);
    visit("ops", ops);
    visit("page_outs", page_outs);
    visit("page_ins", page_ins);
    visit("page_out_bytes", page_out_bytes);
    visit("page_in_bytes", page_in_bytes);
    visit("clean_drops", clean_drops);
    visit("drops", drops);
    visit("rebuilds", rebuilds);
    visit("drop_bytes", drop_bytes);
    visit("rebuild_bytes", rebuild_bytes);
    visit("faults", faults);
    visit("faults_over_budget", faults_over_budget);
    visit("write_faults", write_faults);
    visit("followed_ops", followed_ops);
    visit("resized_ops", resized_ops);
    visit("plan_misses", plan_misses);
    visit("ops_as_planned", ops_as_planned);
    visit("most_ops_as_planned_in_a_row", most_ops_as_planned_in_a_row);
    visit("followed_windows", followed_windows);
    visit("windows_as_planned", windows_as_planned);
    visit("windows_of_comparisons", windows_of_comparisons);
    visit("planned_difference_bytes", planned_difference_bytes);
    visit("failed_actions", failed_actions);
    visit("fuzz_page_outs", fuzz_page_outs);
    visit("replayed_calls", replayed_calls);
    visit("replay_differences", replay_differences);
    visit("live_blocks", live_blocks);
    visit("records", records);
    visit("pins", pins);
    visit("export_bytes", export_bytes);
    visit("mappings", mappings);
    visit("witness_peak_bytes", witness_peak_bytes);
    visit("system_calls", system_calls);
    visit("populated_bytes", populated_bytes);
    visit("handling_seconds", handling_seconds);
    visit("page_out_handling_seconds", page_out_handling_seconds);
    visit("page_in_handling_seconds", page_in_handling_seconds);
    visit("handling_beside_seconds", handling_beside_seconds);
    visit("stall_seconds", stall_seconds);
    visit("page_out_stall_seconds", page_out_stall_seconds);
    visit("page_in_stall_seconds", page_in_stall_seconds);
    visit("replay_seconds", replay_seconds);
    visit("paging_seconds", paging_seconds);
  }
};

}  // namespace tensorpager::pager
