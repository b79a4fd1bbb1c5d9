"""`tensorpager fit` against real runs on this machine: the batch that it says is the quickest under a budget, and all others of a grid.

.venv/bin/python bench/fit.py [--only gpt] [--sizes 7] [--steps 20] [--rounds 2] [--finals 6] [--json out/fit.json]

Prints for each program: each batch tried, samples a second measured and simulated, and what of the best one the answer of `fit` reaches. All
batches run once in each round. Runs of one batch differ by a tenth and more, so the quickest of many runs is quick by chance, too: the answer of `fit`
and the three quickest others run again, in turn, and the medians of those runs alone are compared.
"""

import argparse
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / "test" / "programs"
MIB = 1 << 20
CASES = {"gpt": 48 * MIB, "resnet": 100 * MIB, "unet": 100 * MIB}  # budgets
RIVALS = 3
TIMED = 9  # steps at the end of a run, whose median counts
COMMAND = Path(sys.executable).with_name("tensorpager")


def measured(name: str, batch: int, budget: int, steps: int) -> float:
    """Samples a second in one of the last steps, when a plan is followed."""
    program = [sys.executable, "-u", PROGRAMS / f"{name}.py", "--batch", batch, "--steps", steps]
    words = [COMMAND, "run", "--quiet", "--budget", budget, "--plan-sync", "--", *program]
    running = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
    ends = [time.perf_counter() for line in running.stdout if re.match(r"step \d+ ", line)]
    if running.wait() != 0:
        return 0.0
    took = [end - begin for begin, end in itertools.pairwise(ends[-1 - TIMED :])]
    return batch / statistics.median(took)


def answer(name: str, machine: Path, budget: int) -> dict:
    program = ["--", sys.executable, PROGRAMS / f"{name}.py", "--batch", "{batch}", "--steps", 20]
    words = [COMMAND, "fit", "--json", "--machine", machine, "--budget", budget, "--from", 8, *program]
    return json.loads(subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True).stdout)


def compare(name: str, machine: Path, options: argparse.Namespace) -> dict:
    budget, sizes = CASES[name], options.sizes

    def run_in_turn(batches: list[int], rounds: int) -> dict[int, list[float]]:
        runs = {batch: [] for batch in batches}
        for batch in batches * rounds:
            runs[batch].append(measured(name, batch, budget, options.steps))
        return runs

    found = answer(name, machine, budget)
    quickest, unpaged, largest = (found[key]["size"] for key in ("quickest", "unpaged", "largest"))
    grid = {round(unpaged / 2 * (largest / unpaged * 2) ** (i / (sizes - 1))) for i in range(sizes)} | {
        quickest,
        unpaged,
    }
    simulated = {point["size"]: point["per_second"] for point in found["tried"]}
    runs = run_in_turn(sorted(grid), options.rounds)
    reached = {batch: max(of_batch) for batch, of_batch in runs.items()}
    rivals = sorted(reached.keys() - {quickest}, key=reached.get)[-RIVALS:]
    finals = run_in_turn(sorted([quickest, *rivals]), options.finals)
    middle = {batch: statistics.median(of_batch) for batch, of_batch in finals.items()}
    share = middle[quickest] / max(middle.values())
    print(f"{name}, {budget / MIB:.0f} MiB: fit says {quickest} ({unpaged} without paging, {largest} at most)")
    for batch, per_second in reached.items():
        also = f"{simulated[batch]:10.1f} simulated" if batch in simulated else ""
        again = f"{middle[batch]:10.1f} again" if batch in middle else ""
        line = f"  {batch:6}  {per_second:10.1f} a second{again:16}{also}{'  <- fit' if batch == quickest else ''}"
        print(line.rstrip())
    print(f"  fit's batch reaches {share:.3f} of the best", flush=True)
    return {"found": found, "measured": runs, "again": finals, "share_of_best": share}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--sizes", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--finals", type=int, default=6, help="rounds of the answer and the quickest others")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Path(folder) / "here.machine"
        subprocess.run([COMMAND, "machine", "--measure", "-o", machine], stdout=subprocess.DEVNULL, check=True)
        results = {name: compare(name, machine, options) for name in options.only}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
