"""What interception costs when the budget is never short: plain torch against Tensorpager, and against Tensorpager that records, in one
process, in turn.

.venv/bin/python bench/interception.py [--rounds 40] [--json out/interception.json]
"""

import argparse
import json
import os
import statistics

import pairs
import torch
import workloads

import tensorpager

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    print(
        f"measured: CPU time of one thread, medians of {options.rounds} interleaved rounds, torch at 1 thread, unlimited budget"
    )
    print(f"{'work':<20}{'plain ms':>10}{'ours ms':>10}{'ratio':>8}{'ns a call':>11}{'goal':>8}{'recording':>11}")
    for name, build in CASES.items():
        seconds = measure(build, options.rounds)
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
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
