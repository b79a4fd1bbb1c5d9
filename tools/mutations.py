"""The mutations of mutate.py: each breaks one place, and names the suites that must notice."""

from typing import NamedTuple


class Mutation(NamedTuple):
    name: str
    file: str  # below src/tensorpager
    old: str
    new: str
    suites: str  # by folder, in the order in which they are run


MUTATIONS = [
    # --- who leaves, and when page-ins begin
    Mutation(
        "victims-by-last-use-under-a-plan",
        "pager/following.cpp",
        "  if (executor_.source() == nullptr) return table_.choose_victim();",
        "  return table_.choose_victim();",
        "pager follow",
    ),
    Mutation(
        "unplanned-blocks-never-leave",
        "follow/unplanned_blocks.h",
        "    for (Block* block : idle) page_out_for_good(*block, actions);\n",
        "    for (Block* block : idle)\n      if (block == nullptr) page_out_for_good(*block, actions);\n",
        "pager follow",
    ),
    Mutation(
        "await-of-a-copy-does-nothing",
        "pager/page_ins.cpp",
        "  const base::Stopwatch watch(counts_.page_out_stall_seconds);\n  queues_->wait(copy);\n}",
        "  const base::Stopwatch watch(counts_.page_out_stall_seconds);\n}",
        "memory sim",
    ),
    Mutation(
        "page-in-before-its-own-page-out",
        "pager/page_ins.cpp",
        "std::max(newest_copy_from(place), block.copy),",
        "newest_copy_from(place),",
        "memory sim",
    ),
    Mutation(
        "page-in-before-the-page-out-of-its-place",
        "pager/page_ins.cpp",
        "std::max(newest_copy_from(place), block.copy),",
        "block.copy,",
        "memory sim",
    ),
    Mutation(
        "birth-before-the-page-out-of-its-place",
        "pager/pager.cpp",
        "    transfers_.await_copy(transfers_.newest_copy_from(place));\n",
        "",
        "memory sim",
    ),
    Mutation(
        "resynchronises-anywhere",
        "follow/resynchroniser.cpp",
        "  const std::size_t here = matching_before(at, std::equal_to());",
        "  if (at + 1 > 0) return true;\n  const std::size_t here = matching_before(at, std::equal_to());",
        "pager follow",
    ),
    Mutation(
        "always-expects-the-same-class",
        "follow/window_history.cpp",
        "  if (classes_ == 1) return std::nullopt;",
        "  if (classes_ > 0) return std::nullopt;",
        "pager follow",
    ),
    Mutation(
        "end-of-an-op-goes-to-any-source",
        "pager/pager.h",
        "    if (executor_.source() != nullptr && thread == follower_) executor_.end_op();",
        "    if (executor_.source() != nullptr || thread == follower_) executor_.end_op();",
        "pager follow",
    ),
    # --- accounts, and what is restored
    Mutation(
        "evicts-where-it-fits-exactly",
        "pager/residency.cpp",
        "  while (ledger_.resident() + bytes > ledger_.budget() + transfers_.leaving_bytes()) {",
        "  while (ledger_.resident() + bytes >= ledger_.budget() + transfers_.leaving_bytes()) {",
        "pager follow",
    ),
    Mutation(
        "abandoned-page-in-stays-charged",
        "pager/states.cpp",
        "    ledger_.page_out(block.charged);",
        "    static_cast<void>(0);",
        "pager follow",
    ),
    Mutation(
        "slot-of-a-failed-copy-is-lost",
        "pager/page_outs.cpp",
        "  if (is_dirty) {\n    release_slot(block);",
        "  if (is_dirty) {\n    block.slot = {};",
        "pager follow",
    ),
    Mutation(
        "failed-copy-leaves-the-block-clean",
        "pager/page_outs.cpp",
        "is_dirty ? 0 : kClean);",
        "kClean);",
        "pager follow",
    ),
    Mutation(
        "page-ins-of-an-op-are-not-held-for-it",
        "pager/residency.cpp",
        "      transfers_.arriving().back().is_needed = true;\n",
        "",
        "pager follow memory",
    ),
    Mutation(
        "results-of-inner-ops-are-not-pinned",
        "pager/pin_set.h",
        "    if (temporaries_ == Temporaries::kKeep && pager_.pin_if_ready(block, Access::kRead)) pins_.push_back(&block);",
        "    if (temporaries_ == Temporaries::kLetGo && pager_.pin_if_ready(block, Access::kRead)) pins_.push_back(&block);",
        "pager follow",
    ),
    Mutation(
        "write-to-a-clean-block-keeps-its-slot",
        "pager/page_outs.cpp",
        "  ++block.mended;\n  release_slot(block);\n",
        "  ++block.mended;\n",
        "pager follow",
    ),
    # --- tiers
    Mutation(
        "file-never-reuses-room",
        "transfer/file_tier.cpp",
        "  file.release(slot.offset, slot.bytes);\n",
        "",
        "transfer",
    ),
    Mutation(
        "processes-share-a-spill-file",
        "transfer/file_tier.cpp",
        "  ++generation_;\n",
        "",
        "transfer",
    ),
    Mutation(
        "queue-forgets-failures",
        "transfer/threaded_queues.cpp",
        "  if (failure && !shared.queue[direction].front().cancelled)",
        "  if (failure && shared.queue[direction].front().cancelled)",
        "transfer",
    ),
    Mutation(
        "queued-page-in-does-not-wait-for-its-page-out",
        "transfer/threaded_queues.cpp",
        " && !busy[direction] && done[kOut] >= queue[direction].front().after();",
        " && !busy[direction];",
        "transfer",
    ),
    Mutation(
        "cancel-does-not-wait-for-what-has-begun",
        "transfer/threaded_queues.cpp",
        "    if (&job != &queue.front() || !shared_->busy[direction]) return true;\n",
        "    return true;\n",
        "transfer",
    ),
    # --- places
    Mutation(
        "births-not-put-beside-what-is-fixed",
        "arena/placement.cpp",
        "  const Fit fit = wanted.keep_whole > Bytes(0) ? Fit::kBesideFixed : Fit::kCheapest;",
        "  const Fit fit = Fit::kCheapest;",
        "arena memory",
    ),
    Mutation(
        "dirty-costs-as-clean",
        "arena/placement.cpp",
        "constexpr double kDirtyCost = 2,",
        "constexpr double kDirtyCost = 1,",
        "arena memory",
    ),
    Mutation(
        "no-room-kept-for-births",
        "pager/residency.cpp",
        "  if (pins.end_ != OpEnd::kUnplanned && births_have_places()) return;",
        "  if (pins.end_ != OpEnd::kUnplanned || births_have_places() || true) return;",
        "memory",
    ),
    Mutation(
        "unplanned-blocks-in-planned-places",
        "arena/placement.cpp",
        "  if (planned_ > Bytes(0) && wanted.keep_whole == Bytes(0))",
        "  if (planned_ > base::kUnlimited && wanted.keep_whole == Bytes(0))",
        "arena memory",
    ),
    Mutation(
        "refused-relocation-loses-addresses",
        "memory/stable_binding.cpp",
        "    if (relocation.to != nullptr) space_.give_back(relocation.to, relocation.bytes());\n",
        "",
        "memory pager follow",
    ),
    Mutation(
        "refused-fresh-pages-lose-addresses",
        "memory/stable_binding.cpp",
        "    close(fresh.at, fresh.bytes);\n    space_.give_back(fresh.at, fresh.bytes);\n",
        "    close(fresh.at, fresh.bytes);\n",
        "memory pager follow",
    ),
    Mutation(
        "freed-pieces-do-not-join",
        "arena/region.cpp",
        "    if (before->second == offset) {",
        "    if (before->second == offset + 1) {",
        "arena",
    ),
    # --- plans
    Mutation(
        "no-slack-for-page-ins",
        "planning/schedule.cpp",
        "kSlackPercent = 115",
        "kSlackPercent = 100",
        "planning plan",
    ),
    Mutation(
        "never-settles",
        "planning/attempt.cpp",
        "  if (!techniques_.compaction || !techniques_",
        "  return best;\n  if (!techniques_.compaction || !techniques_",
        "planning plan",
    ),
    Mutation(
        "never-ejects",
        "planning/packing/packing.cpp",
        "  if (effort.ejection && !packer.fits())",
        "  if (effort.ejection && intervals.empty() && !packer.fits())",
        "planning plan",
    ),
    Mutation(
        "never-mends-an-order",
        "planning/packing/packing.cpp",
        "  if (top_of(intervals) > space) mend(",
        "  if (top_of(intervals) > space && intervals.empty()) mend(",
        "planning plan",
    ),
    Mutation(
        "online-as-a-last-resort-only",
        "planning/planners/pages_planner.cpp",
        "if (costs.overhead == 0 && (found.empty() || is_early",
        "if (costs.overhead == 0 && (found.empty() || (found.empty() && is_early)",
        "planning plan",
    ),
    Mutation(
        "placed-over-transfers-once",
        "planning/attempt.cpp",
        "    place_again_over_transfers(scheduled, done, by, found);\n",
        "",
        "planning plan",
    ),
    Mutation(
        "what-dies-unused-costs-more-to-evict",
        "planning/eviction.cpp",
        "(its.dies ? both_ways_ : 1)",
        "(its.dies ? 1 : both_ways_)",
        "planning plan",
    ),
    Mutation(
        "lower-bound-counts-what-could-return-later",
        "planning/lower_bound.cpp",
        "done + transfer(below - could_return_after, machine.in)",
        "done + transfer(below, machine.in)",
        "planning plan",
    ),
    Mutation(
        "classes-drop-what-others-wrote",
        "planning/attempt.cpp",
        "  take_for_dirty(intervals);\n",
        "",
        "planning plan",
    ),
    Mutation(
        "waits-for-the-page-out-before",
        "planning/schedule.cpp",
        "        row.wait = instances.ticket(newest - 1);",
        "        row.wait = instances.ticket(newest > 1 ? newest - 2 : 0);",
        "planning plan",
    ),
    # --- the guide and the simulator
    Mutation(
        "quicker-plan-is-never-adopted",
        "guide/guide.cpp",
        "if (!is_replacement || adherence_.is_worthwhile(gain_over(found, now))) return true;",
        "if (!is_replacement) return true;",
        "guide",
    ),
    Mutation(
        "never-resumes-recording-where-it-no-longer-fits",
        "guide/active_plan.cpp",
        ": since.page_outs > 0;",
        ": false;",
        "guide",
    ),
    Mutation(
        "plan-is-never-dropped",
        "guide/adherence.cpp",
        "  if (share < kLeastFollowed) {",
        "  if (share < 0) {",
        "guide",
    ),
    Mutation(
        "records-of-before-a-pause-are-kept",
        "guide/active_plan.cpp",
        "  recorder_.restart();\n",
        "",
        "guide",
    ),
    Mutation(
        "simulated-page-ins-stall-compute-for-their-place",
        "sim/simulator.cpp",
        "    if (plan_.rows[action.row].fill != Fill::kPageIn) stall_until(",
        "    stall_until(",
        "sim planning plan",
    ),
    Mutation(
        "pager-run-takes-no-time-for-handling",
        "sim/pager_run.cpp",
        "  parts_->clock += time;\n}\n\nvoid PagerRun::run_op",
        "}\n\nvoid PagerRun::run_op",
        "sim",
    ),
]
