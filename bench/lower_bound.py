"""A lower bound on the time of a window, as a linear program: any share of any storage may be below, or dropped and rebuilt, between two uses.

.venv/bin/python bench/lower_bound.py [--no-replays] [--planner NAME]... --machine NAME [--budget PERCENT]... TRACE...

Prints for each trace and budget the bound's overhead, that of each planner's plan (of pages without replays, else of
hybrid), and by how many points the last one is above the bound. Plans have all of the links and no reserve, as the bound
has.

Independent of the planners and of their own bound (bound/program.py). Bytes are charged until their page-out is done, and
from their page-in's begin; transfers have no latency. What is dropped is charged again only when it is needed, and what
rebuilding it takes is the ops that had written it, and those that had written arguments that are dead by then: one replay
may serve all that need it, of whom those count that it had written, or else those nearest to it. Op order is fixed, and
nothing needs an offset. Windows follow each other, and each does as the one before: what is below when one begins has
left in the one before, or leaves in its beginning.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bound.program import lower_bound
from bound.rates import Machine

COMMAND = Path(sys.executable).with_name("tensorpager")


def simulated(trace: Path, percent: int, machine: str, planner: str) -> dict:
    command = [COMMAND, "simulate", trace, "--budget", f"{percent}%", "--machine", machine, "--json"]
    command += ["--planner", planner, "--reserve", "0", "--link-share", "100"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--budget", type=int, action="append", metavar="PERCENT", help="of the need; may be repeated")
    parser.add_argument("--planner", action="append", help="may be repeated")
    parser.add_argument("--no-replays", action="store_true")
    parser.add_argument("--grid", type=int, default=48, help="ops between which statements are made")
    options = parser.parse_args()
    described = subprocess.run([COMMAND, "machine", options.machine], capture_output=True, text=True, check=True).stdout
    machine = Machine.parse(described)
    planners = options.planner or ["pages" if options.no_replays else "hybrid"]
    print(f"| trace | machine | budget | bound | {' | '.join(planners)} | points |\n|{'---|' * (len(planners) + 5)}")
    for trace in options.traces:
        for percent in options.budget or [75, 50, 33, 25]:
            plans = [simulated(trace, percent, options.machine, planner) for planner in planners]
            head = f"| {trace.stem} | {options.machine} | {percent} % |"
            of_any = next((plan for plan in plans if plan["fits"]), None)
            if of_any is None:
                print(head, "below the floor |" + " |" * (len(planners) + 1), flush=True)
                continue
            compute = of_any["step_seconds"] / (1 + of_any["overhead"])
            budget = of_any["need_bytes"] * percent // 100
            bound = lower_bound(trace.read_text(), machine, budget, options.grid, not options.no_replays) / compute - 1
            overheads = [f"{100 * plan['overhead']:.2f}" if plan["fits"] else "none" for plan in plans]
            points = f"{100 * (plans[-1]['overhead'] - bound):.2f}" if plans[-1]["fits"] else ""
            print(head, f"{100 * bound:.2f} |", " | ".join(overheads), f"| {points} |", flush=True)


if __name__ == "__main__":
    main()
