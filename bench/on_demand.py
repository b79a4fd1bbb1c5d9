"""Training steps on demand (no plan) under a share of their need, against plain torch, in turn, in one process. This is the baseline that plans must beat.

.venv/bin/python bench/on_demand.py [--rounds 5] [--spill DIR|ram] [--json out/on_demand.json]
"""

import argparse
import json
import os
import statistics
import time

import torch
import workloads

import tensorpager

os.environ["TENSORPAGER_ON_DEMAND"] = "1"

SHARES = (0.5, 0.25)
ABOVE_FLOOR = 1.1  # the least budget tried, in floors


def timed(step) -> float:
    step()  # after a switch of sessions: bring the working set in
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def measure(build, rounds: int, spill: str | None) -> tuple[dict, dict]:
    """Seconds by variant, and the figures of each budget's last session."""
    plain = build()
    with tensorpager.enable(budget="unlimited", quiet=True):
        paged = build()
        paged(), paged()
    stats = tensorpager.stats()
    need, floor = stats["need_bytes"], stats["floor_bytes"]
    budgets = {share: max(int(share * need), int(ABOVE_FLOOR * floor)) for share in SHARES}
    seconds = {"plain": [], "unlimited": [], **{share: [] for share in SHARES}}
    figures = {"need_bytes": need, "floor_bytes": floor}
    for _ in range(rounds):
        seconds["plain"].append(timed(plain))
        for name, budget in {"unlimited": "unlimited", **budgets}.items():
            with tensorpager.enable(budget=budget, spill=spill, quiet=True):
                seconds[name].append(timed(paged))
            figures[name] = tensorpager.stats()
    return seconds, figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spill")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"measured: wall time of a step, medians of {options.rounds} interleaved rounds, torch at 1 thread, ratio to plain torch"
    )
    print(
        f"{'work':<12}{'need MiB':>9}{'floor':>7}{'plain ms':>10}{'unlimited':>10}{'50 %':>8}{'25 %':>8}   out+in MiB a step at 25 %"
    )
    rows = {}
    for name, build in workloads.CASES.items():
        seconds, figures = measure(build, options.rounds, options.spill)
        ratios = {
            variant: statistics.median(a / b for a, b in zip(values, seconds["plain"]))
            for variant, values in seconds.items()
        }
        plain = statistics.median(seconds["plain"])
        last = figures[SHARES[-1]]
        moved = (last["page_out_bytes"] + last["page_in_bytes"]) / 2 / 2**20  # two steps a session
        print(
            f"{name:<12}{figures['need_bytes'] / 2**20:>9.0f}{figures['floor_bytes'] / 2**20:>7.0f}{plain * 1e3:>10.0f}"
            f"{ratios['unlimited']:>10.2f}{ratios[0.5]:>8.2f}{ratios[0.25]:>8.2f}{moved:>12.0f}"
        )
        rows[name] = {"plain_seconds": plain, "ratios": ratios, "need_bytes": figures["need_bytes"]}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
