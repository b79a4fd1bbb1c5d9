"""Trains every program with and without tensorpager and compares their output, bit for bit. Exit 1 if any case failed."""

import argparse
import json
import os
import sys
import tempfile
from collections import deque
from dataclasses import asdict, dataclass

from cases import MIB, PROGRAMS, Case, Outcome, brief_cases, budget_for, failures, standard_cases
from forks import Forks, Run

COLUMNS = (
    ("case", -34),
    ("need", 8),
    ("floor", 8),
    ("budget", 8),
    ("peak", 8),
    ("rss", 6),
    ("outs", 8),
    ("ins", 8),
    ("bits", 6),
    ("seconds", 8),
)


@dataclass(frozen=True)
class Result:
    case: Case
    budget: int | str | None
    outcome: Outcome | None  # None: not run, because the case that it needs failed
    failures: list[str]
    bits_equal: bool | None  # None: there is nothing to compare


class Schedule:
    """Runs cases after the cases that they need, so that a budget is known when its run starts."""

    def __init__(self, wanted, forks):
        self._forks = forks
        self._waiting = deque()
        self._started = set()
        self._outcomes = {}
        self._budgets = {}
        for case in wanted:
            chain = [case]
            while chain[0].prerequisite():
                chain.insert(0, chain[0].prerequisite())
            self._waiting.extend(needed for needed in chain if needed not in self._waiting)

    def results(self):
        """Yields a Result as each case ends, prerequisites included."""
        while self._waiting or not self._forks.is_idle():
            while self._forks.has_room() and (case := self._next_ready()):
                needed = case.prerequisite()
                if needed and self._outcomes[needed] is None:
                    self._outcomes[case] = None
                    yield Result(case, None, None, [f"not run: {needed} did not end"], None)
                else:
                    self._start(case)
            if not self._forks.is_idle():
                yield self._result(*self._forks.wait())

    def _result(self, case, outcome):
        budget, plain = self._budgets[case], self._outcomes.get(case.reference)
        ended = not outcome.exit_code and not outcome.timed_out
        self._outcomes[case] = outcome if ended else None
        equal = outcome.stdout == plain.stdout if ended and plain else None
        return Result(case, budget, outcome, failures(case, budget, outcome, plain), equal)

    def _next_ready(self):
        for case in self._waiting:
            needed = case.prerequisite()
            if needed is None or needed in self._outcomes:
                self._waiting.remove(case)
                return case
        return None

    def _start(self, case):
        budget = "unlimited" if case.has_pager else None
        if case.share:
            budget = budget_for(case.share, self._outcomes[case.prerequisite()].stats, case.binding)
        self._budgets[case] = budget
        self._forks.start(case, Run(case.program, case.arguments, budget, case.seed, case.binding, case.kind == "drop"))


def table_line(cells):
    return " ".join(
        f"{cell!s:<{-width}}" if width < 0 else f"{cell!s:>{width}}" for cell, (_, width) in zip(cells, COLUMNS)
    )


def table_row(result):
    outcome = result.outcome or Outcome(exit_code=0)
    stats = outcome.stats or {}
    mib = {name: f"{stats[name] / MIB:.1f}" if stats else "-" for name in ("need_bytes", "floor_bytes", "peak_bytes")}
    cells = (
        result.case,
        mib["need_bytes"],
        mib["floor_bytes"],
        f"{result.budget / MIB:.1f}" if isinstance(result.budget, int) else "-",
        mib["peak_bytes"],
        f"{outcome.rss_growth / MIB:.0f}",
        stats.get("page_outs", "-"),
        stats.get("page_ins", "-"),
        {None: "-", True: "equal", False: "differ"}[result.bits_equal],
        f"{outcome.seconds:.1f}",
    )
    return table_line(cells)


def sample_growth(program, steps, every, forks):
    """The program at half of its need for many steps: its outcome, with one sample each `every` steps."""
    forks.start("short", Run(program, ("--steps", "4"), budget="unlimited"))
    _, short = forks.wait()
    if short.exit_code:
        return short
    forks.start("long", Run(program, ("--steps", str(steps)), budget_for(0.5, short.stats), sample_every=every))
    return forks.wait()[1]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="only this one; may be repeated")
    parser.add_argument(
        "--case", action="append", type=Case.parse, help="exactly this case, for example gpt:fuzz-7; may be repeated"
    )
    parser.add_argument(
        "--seeds", type=int, default=int(os.environ.get("TENSORPAGER_TEST_SEEDS", "2")), help="fuzz runs a program"
    )
    parser.add_argument("--binding", choices=("stable", "rebinding"), default="stable")
    parser.add_argument("--full", action="store_true", help="also fuzz at half of the need")
    parser.add_argument("--brief", action="store_true", help="only fuzz, with few and small steps")
    parser.add_argument("--drop", action="store_true", help="the same, and drop besides what replays can rebuild")
    parser.add_argument(
        "--plain-only", action="store_true", help="only without tensorpager, which need not be installed"
    )
    parser.add_argument("--growth", metavar="PROGRAM", help="sample one program instead, and print the outcome as JSON")
    parser.add_argument("--steps", type=int, default=200, help="of the program that --growth samples")
    parser.add_argument("--every", type=int, default=20, help="steps between two samples of --growth")
    parser.add_argument("--spill", choices=("file", "ram"), default="file")
    parser.add_argument("--folder", help="for output and spill files; default a temporary one")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--table", action="store_true", help="a row for each case, not only the failures")
    parser.add_argument("--json", action="store_true", help="a JSON object a line for each case instead")
    return parser.parse_args()


def main():
    args = parse_arguments()
    if not args.plain_only:
        import tensorpager  # noqa: F401  before the forks, so that each child finds it loaded
    programs = args.program or list(PROGRAMS)
    wanted = args.case or standard_cases(programs, args.seeds, args.full, args.binding)
    if args.brief or args.drop:
        wanted = brief_cases("drop" if args.drop else "brief", programs, args.seeds, args.binding)
    if args.plain_only:
        wanted = [Case(program, "plain") for program in programs]

    with tempfile.TemporaryDirectory(dir=args.folder, prefix="programs-") as folder:
        forks = Forks(folder, args.jobs, args.timeout, args.spill)
        forks.preload(case.program for case in wanted)
        if args.growth:
            print(json.dumps(asdict(sample_growth(args.growth, args.steps, args.every, forks))))
            return 0
        if args.table:
            print(table_line(name for name, _ in COLUMNS), " (bytes in MiB)")
        failed = total = 0
        for result in Schedule(wanted, forks).results():
            total += 1
            failed += bool(result.failures)
            if args.json:
                print(json.dumps(asdict(result) | {"case": str(result.case)}), flush=True)
                continue
            if args.table or result.failures:
                print(table_row(result), flush=True)
            for line in result.failures:
                print(f"  {line}", flush=True)
        if not args.json:
            print(f"{total - failed} of {total} cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
