"""What a followed op costs the host on a card: the time of the thread that launches under a plan, over that of the same program without a budget.
Of a thousand ops in place nearly none moves a block; the networks have half of what they need. All runs are processes of their own, in turn.

.venv/bin/python bench/card_host.py [--card h100-80g] [--rounds 5] [--only "GPT-2"] [--json out/card_host.json]

Emulated: kernels and copies run when the host waits for them, which is after each step, so that the thread that launches does in a step what it
does on a GPU: it finds tensors, tells the pager, and queues. Only if it asks 64 times in a row whether work is done, or thousands of
times in all, a kernel runs in that thread, which is counted. Calls cost what they cost in the emulated runtime, not what they cost in CUDA's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

TENSORPAGER = Path(sys.executable).with_name("tensorpager")
CALLS = 1000
STEPS_UNTIL_FOLLOWED, TIMED_STEPS = 30, 30
ABOVE_FLOOR = 1.1  # the least budget, in floors
SHARES = {"in place": 0.8, "GPT-2": 0.5, "ResNet-18": 0.5}  # of what the work needs: its budget
GOALS = {"in place": 0.4, "GPT-2": 1.5, "ResNet-18": 1.5}  # microseconds an op
# cuBLAS's own workspaces are as large as these models. The race checker would work on the thread that launches.
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":16:8",
    "CUBLASLT_WORKSPACE_SIZE": "16",
    "TENSORPAGER_EMULATE_RACES": "0",
}
MIB = 1 << 20


def works() -> dict:
    import workloads

    return {
        "in place": partial(workloads.in_place_in_training, "add_", calls=CALLS),
        "GPT-2": partial(workloads.gpt2, length=128, batch=16),
        "ResNet-18": workloads.resnet18,
    }


def work(name: str) -> None:
    """Runs in a process of its own: prints the CPU seconds of this thread in each timed step, and what the pager counted in all of them."""
    import torch

    import tensorpager

    torch.set_default_device("cuda")
    step = works()[name]()
    torch.set_default_device(None)

    def run() -> float:
        start = time.thread_time()
        step()
        took = time.thread_time() - start
        torch.cuda.synchronize()
        return took

    for _ in range(STEPS_UNTIL_FOLLOWED):
        run()
    before = tensorpager.stats()
    seconds = [run() for _ in range(TIMED_STEPS)]
    after = tensorpager.stats()
    counted = {key: after[key] - before[key] for key in ("followed_ops", "page_outs", "page_ins")}
    print(json.dumps({"seconds": seconds} | counted))


def run(name: str, card: str, budget: int | None = None) -> dict:
    """What the process printed, and `stats`: its statistics."""
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder) / "stats.json"
        paged = ["--device", "cuda", "--budget", budget, "--plan-sync"] if budget else []
        emulated = ["--emulate", card, "--emulate-seed", "late", "--stats", stats, "--quiet"]
        command = [TENSORPAGER, "run", *emulated, *paged, "--", sys.executable, __file__, "--work", name]
        done = subprocess.run(list(map(str, command)), env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout) | {"stats": json.loads(stats.read_text())}


def measure(name: str, card: str, rounds: int) -> dict:
    seen = run(name, card, budget=1 << 33)["stats"]
    budget = max(int(SHARES[name] * seen["need_bytes"]), int(ABOVE_FLOOR * seen["floor_bytes"]))
    runs = {"plain": [], "followed": []}
    for index in range(rounds):
        for variant in list(runs) if index % 2 == 0 else reversed(runs):
            runs[variant].append(run(name, card, budget if variant == "followed" else None))

    def median(variant: str, figure) -> float:
        return statistics.median(map(figure, runs[variant]))

    def step_seconds(one: dict) -> float:
        return statistics.median(one["seconds"])

    ops = median("followed", lambda one: one["followed_ops"]) / TIMED_STEPS
    if ops == 0:
        raise SystemExit(f"card_host: {name} followed no plan under {budget / MIB:.1f} MiB")
    more = statistics.median(step_seconds(a) - step_seconds(b) for a, b in zip(runs["followed"], runs["plain"]))
    return {
        "need_bytes": seen["need_bytes"],
        "budget_bytes": budget,
        "followed_ops": ops,
        "moved_blocks": median("followed", lambda one: one["page_outs"] + one["page_ins"]) / TIMED_STEPS,
        "plain_microseconds_per_op": median("plain", step_seconds) / ops * 1e6,
        "microseconds_per_op": more / ops * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", default="h100-80g")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=SHARES, default=list(SHARES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    print(
        f"emulated: CPU time of the thread that launches, over that without a budget; medians of {options.rounds} processes"
    )
    print(f"{'work':<14}{'need MiB':>9}{'budget':>8}{'ops':>6}{'moved':>7}{'plain us an op':>16}{'more':>7}{'goal':>6}")
    rows = {}
    for name in options.only:
        row = rows[name] = measure(name, options.card, options.rounds)
        print(
            f"{name:<14}{row['need_bytes'] / MIB:>9.1f}{row['budget_bytes'] / MIB:>8.1f}{row['followed_ops']:>6.0f}{row['moved_blocks']:>7.1f}"
            f"{row['plain_microseconds_per_op']:>16.2f}{row['microseconds_per_op']:>7.2f}{GOALS[name]:>6}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
