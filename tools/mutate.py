"""Breaks the code in one place at a time, and says which test notices.

    python tools/mutate.py [--folder DIR] [--check] [NAME ...]

Copies the checkout to DIR, else to a temporary folder; builds the tests of the folders that need no torch there, and
applies one mutation after the other, each undone before the next. Prints `NAME | caught by SUITE.TEST` or
`NAME | SURVIVED`, and exits 1 if one survives or a text is not found exactly once. A DIR is kept, so that the next call
builds less. With --check it only looks for the texts. NAME is the beginning of a mutation's name.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

SECONDS = 300  # for a suite: a mutation may wait for ever
ROOT = Path(__file__).resolve().parent.parent


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
        "  if (pins.is_expected_ && births_have_places()) return;",
        "  if (pins.is_expected_ || births_have_places() || true) return;",
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


def run(folder, *command, seconds=None):
    """Its exit code and output; None for a code where it took too long."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout + done.stderr


def copy_checkout(to):
    """What git knows and does not ignore, as it is; a file that is the same already keeps its time."""
    _, listed = run(ROOT, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, to / name
        if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if (ROOT / ".deps").exists() and not (to / ".deps").exists():
        (to / ".deps").symlink_to(ROOT / ".deps")


def build(folder, suites):
    code, output = run(folder, "cmake", "--preset", "std")
    if code == 0:
        targets = [f"{suite}_test" for suite in suites]
        code, output = run(folder, "cmake", "--build", "build/std", "--target", *targets)
    errors = [line for line in output.splitlines() if "rror:" in line] or output.splitlines()[-5:]
    return None if code == 0 else "\n".join(errors)


def failed_tests(folder, suite):
    """Of one suite; the test that was running where it crashed or hung."""
    code, output = run(folder / "build/std/test", f"./{suite}_test", seconds=SECONDS)
    failed = re.findall(r"^\[  FAILED  \] ([^ ,\n]+)(?:,.*)? \(\d+ ms\)$", output, re.MULTILINE)
    if code != 0 and " ran. (" not in output:
        started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        failed.append(f"{started[-1] if started else suite} ({'hangs' if code is None else 'crashes'})")
    return failed


def outcome_of(folder, mutation):
    error = build(folder, mutation.suites.split())
    if error is not None:
        return f"DOES NOT BUILD: {error}"
    for suite in mutation.suites.split():
        if failed := failed_tests(folder, suite):
            return f"caught by {failed[0]}" + (f" and {len(failed) - 1} more" if len(failed) > 1 else "")
    return "SURVIVED"


def is_caught(folder, mutation):
    path = folder / "src/tensorpager" / mutation.file
    text = path.read_text()
    if text.count(mutation.old) != 1:
        outcome = f"TEXT FOUND {text.count(mutation.old)} TIMES in {mutation.file}"
    else:
        path.write_text(text.replace(mutation.old, mutation.new))
        try:
            outcome = outcome_of(folder, mutation)
        finally:
            path.write_text(text)
    print(f"{mutation.name} | {outcome}", flush=True)
    return outcome.startswith("caught")


def is_found(mutation):
    times = (ROOT / "src/tensorpager" / mutation.file).read_text().count(mutation.old)
    if times != 1:
        print(f"{mutation.name} | TEXT FOUND {times} TIMES in {mutation.file}")
    return times == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--check", action="store_true", help="only look whether each text is found exactly once")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    chosen = [one for one in MUTATIONS if not options.names or one.name.startswith(tuple(options.names))]
    if not chosen:
        parser.error("no mutation has such a name")
    if options.check:
        return 0 if all([is_found(one) for one in chosen]) else 1
    folder = options.folder or Path(tempfile.mkdtemp(prefix="tensorpager-mutants-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copy_checkout(folder)
        suites = sorted({suite for one in chosen for suite in one.suites.split()})
        if (error := build(folder, suites)) is not None:
            sys.exit(f"The tests do not build without a mutation: {error}")
        for suite in suites:
            if failed := failed_tests(folder, suite):
                sys.exit(f"Without a mutation these fail: {', '.join(failed)}")
        return 0 if all([is_caught(folder, one) for one in chosen]) else 1
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
    sys.exit(main())
