"""What plans cost on named machines: a Markdown table, a line for each trace, machine and budget.

.venv/bin/python bench/plan_figures.py [--planner NAME] [TRACE...]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).with_name("tensorpager")
DATA = Path(__file__).resolve().parents[1] / "test" / "data"
MACHINES = ("m40-12g", "h200-141g")
BUDGETS = (90, 75, 50, 33, 25)  # percent of need
GIB = 1 << 30
HEAD = "trace machine budget overhead bound stall_s out_GiB in_GiB waste caching".split()


def row(trace: Path, machine: str, percent: int, planner: str) -> list[str]:
    file = DATA / "machines" / f"{machine}.machine"
    arguments = ["simulate", trace, "--budget", f"{percent}%", "--machine", file, "--planner", planner, "--json"]
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True)
    head = [trace.stem, machine, f"{percent} %"]
    if not done.stdout:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    if not found["fits"]:
        is_below = found["budget_bytes"] < found["floor_bytes"]
        floor = f"below the floor of {100 * found['floor_bytes'] / found['need_bytes']:.0f} %"
        return [*head, floor if is_below else "none", *[""] * 6]
    return [
        *head,
        f"{100 * found['overhead']:.1f} %",
        f"{100 * found['lower_bound_overhead']:.1f} %",
        f"{found['stall_seconds']:.3f}",
        f"{found['page_out_bytes'] / GIB:.2f}",
        f"{found['page_in_bytes'] / GIB:.2f}",
        f"{100 * found['placement_waste']:.2f} %",
        f"{100 * found['caching_waste']:.0f} %",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, default=sorted(DATA.glob("*.trace")))
    parser.add_argument("--planner", default="pages")
    options = parser.parse_args()
    print("|", " | ".join(HEAD), "|")
    print("|" + "---|" * len(HEAD))
    for trace in options.traces:
        for machine in MACHINES:
            for percent in BUDGETS:
                print("|", " | ".join(row(trace, machine, percent, options.planner)), "|", flush=True)


if __name__ == "__main__":
    main()
