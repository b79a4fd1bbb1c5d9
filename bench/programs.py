"""Training programs as users write them (test/programs), each run three ways in turn: plain, on demand, and under the plans that its session makes beside it.
What a step takes is the time between the lines that the program prints, over the second half of its steps, in which plans are in force.

.venv/bin/python bench/programs.py [--rounds 3] [--steps 40] [--share 50] [--only padded_batches seq2seq] [--json out/programs.json]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = pathlib.Path(__file__).parent.parent / "test" / "programs"
COMMAND = pathlib.Path(sys.executable).parent / "tensorpager"
UNEQUAL = ["padded_batches", "seq2seq", "packed_lstm", "layer_drop"]  # no two steps of these are equal
ABOVE_FLOOR = 1.1  # the least budget tried, in floors


def run(program: str, steps: int, options: list[str] | None) -> tuple[float, dict, str]:
    """Seconds of a step, the statistics, and what it printed; without options by plain torch."""
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder) / "stats.json"
        before = [] if options is None else [COMMAND, "run", "--quiet", "--stats", stats, *options, "--"]
        command = [*before, sys.executable, "-u", PROGRAMS / f"{program}.py", "--steps", str(steps)]
        printed, ends = "", []
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            for line in process.stdout:
                printed += line
                if line.startswith("step "):
                    ends.append(time.perf_counter())
        if process.returncode != 0 or len(ends) != steps:
            raise SystemExit(f"programs: {program} ended with {process.returncode} after {len(ends)} steps")
        half = steps // 2
        return (ends[-1] - ends[half - 1]) / (steps - half), json.loads(stats.read_text()) if before else {}, printed


def measure(program: str, steps: int, share: float, rounds: int) -> dict:
    _, need, _ = run(program, steps, ["--budget", "unlimited"])
    budget = max(int(share * need["need_bytes"]), int(ABOVE_FLOOR * need["floor_bytes"]))
    ways = {"plain": None, "on demand": ["--budget", str(budget), "--on-demand"], "planned": ["--budget", str(budget)]}
    rows = {way: [] for way in ways}
    for number in range(rounds):
        bits = set()
        for way in list(ways) if number % 2 == 0 else reversed(ways):
            seconds, stats, printed = run(program, steps, ways[way])
            rows[way].append(seconds)
            bits.add(printed)
            if way == "planned":
                followed = stats
        if len(bits) != 1:
            raise SystemExit(f"programs: {program} printed other bits under a budget")
    return {"need_bytes": need["need_bytes"], "budget_bytes": budget, "seconds": rows, "planned": followed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--share", type=int, default=50, help="of the need, in percent")
    parser.add_argument("--only", nargs="+", default=UNEQUAL, help="programs of test/programs")
    parser.add_argument("--json")
    options = parser.parse_args()
    print(
        f"measured: wall time of a step over plain torch's, medians of {options.rounds} rounds in turn, torch at 1 thread; the same bits"
    )
    print(
        f"{'program':<22}{'need MiB':>9}{'budget':>8}{'plain ms':>10}{'on demand':>11}{'planned':>9}{'followed':>10}{'resized':>9}"
    )
    result = {}
    for program in options.only:
        row = result[program] = measure(program, options.steps, options.share / 100, options.rounds)
        seconds, stats = row["seconds"], row["planned"]
        ratio = {way: statistics.median(a / b for a, b in zip(seconds[way], seconds["plain"])) for way in seconds}
        print(
            f"{program:<22}{row['need_bytes'] / 2**20:>9.0f}{row['budget_bytes'] / row['need_bytes']:>8.0%}{statistics.median(seconds['plain']) * 1e3:>10.0f}"
            f"{ratio['on demand']:>11.2f}{ratio['planned']:>9.2f}{stats['followed_share']:>10.1%}{stats['resized_ops'] / max(1, stats['followed_ops']):>9.0%}",
            flush=True,
        )
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
