"""The planners of published systems beside ours, on the papers' programs: simulated, no GPU is used.

.venv/bin/python bench/papers/planners.py [--only TEXT ...] [--full] [--json out/planners.json]

Prints a table in Markdown: the overhead of each planner's plan over the step's compute in percent, or `none` where it has
no plan. Of hybrid's plan also: the bytes that it pages out in a step and the most that have a slot on the host at once,
the latter in percent of what hybrid and what vdnn pages out, and the waste of its placement. All have the whole budget
and the whole of the machines' links, whose rates are those that links deliver. --full adds programs whose plans take
minutes.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

COMMAND = Path(sys.executable).with_name("tensorpager")
HERE = Path(__file__).parent
LARGE = HERE.parents[1] / "test" / "programs" / "large"
PLANNERS = "meng vdnn vdnnpp accudnn layrub sqrt dtr capuchin recompute pages hybrid".split()
GB = 10**9
GIB = 2**30
HEADS_OF_BYTES = ["out / host, GiB", "of out", "of vdnn's out", "waste"]  # of hybrid's plan; shares in percent


class Program(NamedTuple):
    path: Path
    options: str


class Row(NamedTuple):
    name: str
    program: Program
    machine: str
    budget: str
    published: str
    full: bool = False  # takes minutes
    traced_on: str = ""  # if torch's cuDNN has no recurrent nets for the machine: one that it has them for


def vision(model: str, batch: int, *more: str) -> Program:
    return Program(HERE / "vision.py", " ".join([f"--model {model} --batch {batch}", *more]))


def large(name: str, options: str) -> Program:
    return Program(LARGE / f"{name}.py", options)


ROWS = [
    Row("ResNet-50, batch 664", vision("resnet50", 664), "m40-12g", "12GiB", "Meng: fits; swaps lose < 10 %"),
    Row("Inception-V3, batch 548", vision("inception_v3", 548), "m40-12g", "12GiB", "Meng: fits; swaps lose < 10 %"),
    Row("VGG-16, batch 256", vision("vgg16", 256), "titanx-12g", "12GiB", "vDNN: 18 %"),
    Row("ResNet-152, batch 133", vision("resnet152", 133), "m40-12g", "8GiB", "AccUDNN: from 24 to 8 GB"),
    Row("ResNet-50, batch 144", vision("resnet50", 144), "m40-12g", "42%", "Layrub: 24.1 % on average"),
    Row("ResNet-101, batch 64", vision("resnet101", 64), "m40-12g", "42%", "Layrub: 24.1 % on average"),
    Row("Inception-V3, batch 128", vision("inception_v3", 128), "m40-12g", "42%", "Layrub: 24.1 % on average"),
    Row("ResNet-50, batch 184", vision("resnet50", 184), "m40-12g", f"{10.0 * GB:.0f}", "MONeT: 3.2 %"),
    Row("ResNet-50, batch 184", vision("resnet50", 184), "m40-12g", f"{6.0 * GB:.0f}", "MONeT: 9.3 %"),
    Row("ResNet-50, batch 184", vision("resnet50", 184), "m40-12g", f"{4.99 * GB:.0f}", "MONeT: 11.95 %"),
    Row("Inception-v4, batch 64", vision("inception_v4", 64), "m40-12g", "55%", "DTR: 14.7 %"),
    Row("Inception-v4, batch 64", vision("inception_v4", 64), "m40-12g", "38%", "DTR: 25.2 %"),
    Row("DCGAN, batch 1024", large("dcgan", "--batch 1024"), "m40-12g", "60%", "Meng: batch 24 to 48"),
    Row(
        "Seq2Seq T = 50, batch 1100",
        large("seq2seq", "--length 50 --batch 1100 --width 512 --words 8000"),
        "m40-12g",
        "12GiB",
        "Meng: fits",
        traced_on="h200-141g",
    ),
    Row("ResNet-1001, batch 32", large("resnet50", "--depth 1001 --batch 32"), "m40-12g", "12GiB", "Meng: fits", True),
    Row(
        "ResNet-2000, batch 16", large("resnet50", "--depth 2000 --batch 16"), "m40-12g", "12GiB", "Layup: 2,504", True
    ),
    Row(
        "Seq2Seq T = 400, batch 60",
        large("seq2seq", "--length 400 --batch 60 --width 512 --words 8000"),
        "m40-12g",
        "12GiB",
        "Meng: fits",
        True,
        "h200-141g",
    ),
    Row("ResNet-2000, batch 32", large("resnet50", "--depth 2000 --batch 32"), "m40-12g", "12GiB", "Meng: fits", True),
    Row(
        "ResNet-8000, batch 16",
        vision("resnet8000", 16, "--no-foreach"),
        "m40-12g",
        "12GiB",
        "Layup: 2,504",
        True,
    ),
    Row(
        "Llama of 8 billion, 4 x 4096",
        large("llama8b", "--batch 4 --length 4096 --chunks 16 --in-backward"),
        "h200-141g",
        "24GiB",
        "none",
        True,
    ),
]


def trace_of(program: Program, machine: str, folder: Path) -> Path:
    """Of one step, as a dry run; made once."""
    trace = folder / f"{'_'.join([program.path.stem, *program.options.split(), Path(machine).name])}.trace"
    if not trace.exists():
        words = [COMMAND, "trace", "--dry", "--device", "cuda", "--machine", machine, "-o", trace, "--"]
        words += [sys.executable, program.path, *program.options.split()]
        subprocess.run(list(map(str, words)), check=True, capture_output=True)
    return trace


def on_host(plan: Path) -> int:
    """The most bytes that have a slot on the host at once: from their page-out until they die or are paged out anew."""
    ops, rows = 0, defaultdict(list)
    for line in plan.read_text().splitlines()[1:]:
        kind, *words = line.split()
        fields = dict(word.split("=") for word in words if "=" in word)
        if kind == "plan":
            ops = int(fields["ops"])
        elif kind == "row" and words[0] != "temporary":
            rows[words[0]].append(fields)
    spans = []  # size, and the ops between which it has a slot
    for of_storage in rows.values():
        size, begin = int(of_storage[0]["bytes"]), None
        for window in range(2):  # the second is as all later ones
            begin = None if begin is None else 0
            for row in of_storage:
                end = int(row["end"])
                if row["leave"] in ("page_out", "drop") and begin is None:
                    begin = end
                elif row["leave"] == "dies" and begin is not None:
                    spans += [(size, begin, end)] if window == 1 else []
                    begin = None
        spans += [(size, begin, ops)] if begin is not None else []
    change = defaultdict(int)  # by op
    for size, begin, end in spans:
        change[begin] += size
        change[end] -= size
    return max(accumulate(change[op] for op in sorted(change)), default=0)


def plan_with(row: Row, trace: Path, timeout: float | None, planner: str) -> dict:
    """The figures of `simulate --json`, and the seconds that planning took; only `fits` if there is no plan."""
    plan = trace.with_name(f"{planner}.plan")
    plan.unlink(missing_ok=True)
    on = [trace, "--machine", row.machine]
    how = ["--budget", row.budget, "--planner", planner, "--link-share", "100", "--reserve", "0", "-o", plan]
    begin = time.perf_counter()
    try:
        done = run("plan", *on, *how, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"fits": False, "late": True}
    seconds = time.perf_counter() - begin
    if not plan.exists():
        if done.returncode != 1:
            sys.exit(done.stderr)
        return {"fits": False, "plan_seconds": seconds, "why": done.stderr}
    figures = json.loads(run("simulate", *on, "--plan", plan, "--json").stdout)
    return {**figures, "plan_seconds": seconds, "host_bytes": on_host(plan)}


def run(*words, timeout: float | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=timeout)


def cell(found: dict) -> str:
    if found.get("late"):
        return "too long"
    return f"{100 * found['overhead']:.1f}" if found["fits"] else "none"


def cells_of_bytes(plans: dict) -> list[str]:
    hybrid, vdnn = plans["hybrid"], plans.get("vdnn", {"fits": False})
    if not hybrid["fits"]:
        return ["none"] * len(HEADS_OF_BYTES)
    out, host = hybrid["page_out_bytes"], hybrid["host_bytes"]
    of_vdnn = f"{100 * host / vdnn['page_out_bytes']:.0f}" if vdnn["fits"] else "none"
    of_out = f"{100 * host / out:.0f}" if out else "none"
    return [f"{out / GIB:.1f} / {host / GIB:.1f}", of_out, of_vdnn, f"{100 * hybrid['placement_waste']:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="texts of the rows' names")
    parser.add_argument("--planners", nargs="+", default=PLANNERS)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a plan")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    heads = ["program", "machine, budget", "published", *options.planners]
    heads += HEADS_OF_BYTES if "hybrid" in options.planners else []
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    results = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for row in ROWS:
            if not any(text in row.name for text in options.only) or (row.full and not options.full):
                continue
            trace = trace_of(row.program, row.traced_on or row.machine, Path(folder))
            plan = functools.partial(plan_with, row, trace, options.timeout)
            found = dict(zip(options.planners, pool.map(plan, options.planners)))
            budget = row.budget if not row.budget.isdigit() else f"{int(row.budget) / GB:g} GB"
            cells = [row.name, f"`{row.machine}`, {budget}", row.published, *map(cell, found.values())]
            cells += cells_of_bytes(found) if "hybrid" in found else []
            print("| " + " | ".join(cells) + " |", flush=True)
            results.append({**row._asdict(), "program": str(row.program), "plans": found})
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
