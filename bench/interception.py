"""What interception costs when the budget is never short: plain torch against Tensorpager, and against Tensorpager that records, in one
process, in turn. Then what following a plan adds to an op: where nothing moves, against an op that finds all resident on demand; and
where blocks move.

.venv/bin/python bench/interception.py [--rounds 40] [--only interception|following|moving] [--json out/interception.json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pairs
import torch
import workloads

import tensorpager
from tensorpager import _core

GOALS = {"unboxed call": 100, "boxed call": 250, "LSTM cell loop": 1.02, "GPT-2, tiny": 1.00, "ResNet-18": 1.00}
CALLS = 1000

# name -> builder of a step. add_ has an unboxed kernel of ours, sub_ takes the boxed path.
CASES = {
    "unboxed call": lambda: workloads.in_place("add_", calls=CALLS),
    "boxed call": lambda: workloads.in_place("sub_", calls=CALLS),
    "allocate and free": lambda: workloads.allocations(calls=CALLS),
    "LSTM cell loop": workloads.lstm_cell,
    "GPT-2, tiny": workloads.gpt2,
    "ResNet-18": workloads.resnet18,
}

# Of a plan that moves nothing, and of one under a budget; microseconds an op.
STILL = {
    "unboxed call": lambda: workloads.in_place_in_training("add_", calls=CALLS),
    "boxed call": lambda: workloads.in_place_in_training("sub_", calls=CALLS),
}
MOVING = {"GPT-2, tiny": workloads.gpt2, "ResNet-18": workloads.resnet18}
STILL_GOAL, MOVING_GOAL = 0.3, 1.0
SHARE = 0.5  # of what a network needs: its budget
RECORDED_STEPS = 6
STEPS_UNTIL_REST = 40  # of a plan: it is found, and recording pauses
MEASURED_STEPS = 5  # where blocks move


def enable(record: bool) -> None:
    tensorpager.disable()
    if record:
        os.environ["TENSORPAGER_TRACE"] = "unused.trace"
    tensorpager.enable(budget="unlimited", quiet=True)
    os.environ.pop("TENSORPAGER_TRACE", None)


def measure(build, rounds: int) -> dict:
    """Each variant has tensors of its own, made while it was in force."""
    plain = build()
    tensorpager.enable(budget="unlimited", quiet=True)
    paged = build()
    tensorpager.disable()
    off = tensorpager.disable
    seconds = pairs.interleave(
        {"plain": plain, "tensorpager": paged, "recording": paged},
        rounds,
        {"plain": off, "tensorpager": lambda: enable(False), "recording": lambda: enable(True)},
    )
    off()
    return seconds


def plan_of(step, folder: Path) -> Path:
    """A plan under which nothing moves."""
    trace, plan = folder / "step.trace", folder / "step.plan"
    enable(record=True)
    for _ in range(RECORDED_STEPS):
        step()
    _core.write_trace(str(trace))
    budget = 2 * tensorpager.stats()["need_bytes"] + (64 << 20)
    tensorpager.disable()
    command = Path(sys.executable).with_name("tensorpager")
    subprocess.run(
        [command, "plan", trace, "--budget", str(budget), "--machine", "m40-12g", "-o", plan],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return plan


def follow(plan: Path, step) -> None:
    tensorpager.disable()
    tensorpager.enable(plan=str(plan), quiet=True)
    for _ in range(STEPS_UNTIL_REST):
        step()


def measure_still(build, rounds: int) -> dict:
    tensorpager.enable(budget="unlimited", quiet=True)
    step = build()
    step()
    tensorpager.disable()
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(step, Path(folder))
        follow(plan, step)
        before = tensorpager.stats()
        step()
        after = tensorpager.stats()
        ops = after["followed_ops"] - before["followed_ops"]
        if ops < CALLS or after["page_outs"] + after["page_ins"] > 0:
            raise SystemExit(f"interception: {ops} ops of a step are followed, or blocks move")
        seconds = pairs.interleave(
            {"on demand": step, "followed": step},
            rounds,
            {"on demand": lambda: enable(False), "followed": lambda: follow(plan, step)},
        )
    tensorpager.disable()
    return {"followed_ops": ops, "microseconds_per_op": pairs.difference(seconds, "followed", "on demand") / ops * 1e6}


def measure_moving(build, rounds: int) -> dict:
    tensorpager.disable()
    with tensorpager.enable(budget="unlimited", quiet=True):
        step = build()
        step(), step()
    need, floor = (tensorpager.stats()[name] for name in ("need_bytes", "floor_bytes"))

    def follow_under_budget():
        tensorpager.disable()
        tensorpager.enable(budget=max(int(SHARE * need), int(1.1 * floor)), spill="ram", quiet=True)
        for _ in range(STEPS_UNTIL_REST):
            step()

    def several():
        for _ in range(MEASURED_STEPS):
            step()

    seconds = pairs.interleave(
        {"on demand": several, "followed": several},
        rounds,
        {"on demand": lambda: enable(False), "followed": follow_under_budget},
    )
    follow_under_budget()
    before = tensorpager.stats()
    several()
    after = tensorpager.stats()
    tensorpager.disable()
    took = {name: after[name] - before[name] for name in ("followed_ops", "page_outs", "page_ins")}
    took |= {name: after[name] - before[name] for name in ("paging_seconds", "stall_seconds", "handling_seconds")}
    ops = max(took["followed_ops"], 1)
    rest = took["paging_seconds"] - took["stall_seconds"] - took["handling_seconds"]
    return {
        "followed_ops": ops / MEASURED_STEPS,
        "microseconds_per_op": pairs.difference(seconds, "followed", "on demand") / ops * 1e6,
        "moved_per_op": (took["page_outs"] + took["page_ins"]) / ops,
        "transfers_per_op": took["handling_seconds"] / ops * 1e6,
        "rest_per_op": rest / ops * 1e6,
    }


def figures(row: dict) -> str:
    return f"{row['followed_ops']:>6.0f}{row['microseconds_per_op']:>10.3f}"


def follow_plans(rounds: int, only_moving: bool) -> dict:
    os.environ["TENSORPAGER_PLAN_SYNC"] = "1"
    rows = {}
    print(
        "\nmeasured: CPU time of the thread that computes, following a plan, over that on demand with all resident; us an op"
    )
    print(
        "moved: blocks out and in, an op; transfers, rest: wall time of paging in ops by the pager's count, without waiting"
    )
    print(f"{'work':<30}{'ops':>6}{'us an op':>10}{'goal':>6}{'moved':>8}{'transfers':>11}{'rest':>8}")
    for name, build in ({} if only_moving else STILL).items():
        row = rows[name + ", nothing moves"] = measure_still(build, rounds)
        print(f"{name + ', nothing moves':<30}{figures(row)}{STILL_GOAL:>6}", flush=True)
    for name, build in MOVING.items():
        row = rows[name + ", blocks move"] = measure_moving(build, max(rounds // 4, 3))
        print(
            f"{name + ', blocks move':<30}{figures(row)}{MOVING_GOAL:>6}{row['moved_per_op']:>8.3f}"
            f"{row['transfers_per_op']:>11.3f}{row['rest_per_op']:>8.3f}",
            flush=True,
        )
    return rows


def intercept(rounds: int) -> dict:
    rows = {}
    print(
        f"measured: CPU time of one thread, medians of {rounds} interleaved rounds, torch at 1 thread, unlimited budget"
    )
    print(f"{'work':<20}{'plain ms':>10}{'ours ms':>10}{'ratio':>8}{'ns a call':>11}{'goal':>8}{'recording':>11}")
    for name, build in CASES.items():
        seconds = measure(build, rounds)
        row = {
            "plain_seconds": statistics.median(seconds["plain"]),
            "tensorpager_seconds": statistics.median(seconds["tensorpager"]),
            "ratio": pairs.ratio(seconds, "tensorpager", "plain"),
            "recording_ratio": pairs.ratio(seconds, "recording", "tensorpager"),
        }
        per_call = name.endswith("call") or name.endswith("free")
        if per_call:
            row["nanoseconds_per_call"] = pairs.difference(seconds, "tensorpager", "plain") / CALLS * 1e9
        rows[name] = row
        print(
            f"{name:<20}{row['plain_seconds'] * 1e3:>10.2f}{row['tensorpager_seconds'] * 1e3:>10.2f}{row['ratio']:>8.3f}"
            f"{row.get('nanoseconds_per_call', float('nan')):>11.0f}{GOALS.get(name, ''):>8}".replace("nan", "   ")
            + f"{row['recording_ratio']:>11.3f}"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json")
    parser.add_argument("--only", choices=["interception", "following", "moving"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    if options.only in (None, "interception"):
        rows |= intercept(options.rounds)
    if options.only != "interception":
        rows |= follow_plans(options.rounds, options.only == "moving")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
