"""Training steps under a plan, on demand and with plain torch, in turn, in one process; beside them what the plan predicted, and the bound.

.venv/bin/python bench/following.py [--rounds 3] [--spill DIR|ram] [--link 4GB/s] [--shares 75 50 33 25] [--only U-Net] [--json out/following.json]
"""

import argparse
import json
import os
import statistics
import time

import torch
from workloads import CASES

import tensorpager

ABOVE_FLOOR = 1.1  # the least budget tried, in floors
MOST_STEPS_TO_LEARN = 12
SETTLING, LEAST_STEPS = 2, 3
LEAST_SECONDS = 1.0  # short steps are timed more often
COUNTED = ("followed_ops", "page_outs", "page_ins", "page_out_bytes", "drop_bytes", "stall_seconds", "handling_seconds")
FIGURES = (
    "predicted_overhead",
    "measured_overhead",
    "lower_bound_overhead",
    "followed_share",
    "moved_blocks",
    "stalled_share",
    "handling_share",
)
REFINING = 14  # steps after the first plan, in which it is checked, made again from the times seen, and recording comes to rest


def timed(step) -> tuple[float, int]:
    """Seconds of a step, and the steps taken, with those before the timed ones."""
    for _ in range(SETTLING):
        step()
    start = time.perf_counter()
    steps = 0
    while steps < LEAST_STEPS or time.perf_counter() - start < LEAST_SECONDS:
        step()
        steps += 1
    return (time.perf_counter() - start) / steps, SETTLING + steps


def in_session(step, budget, spill, on_demand: bool, recompute: bool = False) -> tuple[float, dict]:
    with tensorpager.enable(budget=budget, spill=spill, on_demand=on_demand, recompute=recompute, quiet=True):
        for _ in range(0 if on_demand else MOST_STEPS_TO_LEARN):
            step()
            if tensorpager.stats()["plans"]:
                break
        for _ in range(0 if on_demand else REFINING):
            step()
        before = tensorpager.stats()
        seconds, steps = timed(step)
        after = tensorpager.stats()
    each_step = {name: (after[name] - before[name]) / steps for name in COUNTED}
    after["each_step"] = each_step
    after["followed_share"] = each_step["followed_ops"] / max(1, after["window_ops"])
    after["moved_blocks"] = each_step["page_outs"] + each_step["page_ins"]
    after["stalled_share"] = each_step["stall_seconds"] / seconds
    after["handling_share"] = each_step["handling_seconds"] / seconds
    return seconds, after


def measure(build, shares: list[float], rounds: int, spill: str | None) -> dict:
    plain = build()
    with tensorpager.enable(budget="unlimited", quiet=True):
        paged = build()
        paged(), paged()
    need, floor = (tensorpager.stats()[name] for name in ("need_bytes", "floor_bytes"))
    rows = {share: {"plain": [], "on_demand": [], "planned": [], "figures": []} for share in shares}
    for _ in range(rounds):
        for share, row in rows.items():
            budget = max(int(share * need), int(ABOVE_FLOOR * floor))
            row["plain"].append(timed(plain)[0])
            row["on_demand"].append(in_session(paged, budget, spill, True)[0])
            seconds, figures = in_session(paged, budget, spill, False)
            row["planned"].append(seconds)
            row["figures"].append(figures)
    return {"need_bytes": need, "floor_bytes": floor, "shares": rows}


def read_options(description: str) -> argparse.Namespace:
    """Of this command and of recomputing.py."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shares", type=int, nargs="+", default=[75, 50, 33, 25])
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    return read_with_session_options(parser)


def read_with_session_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Adds where the bytes go, reads the command line, and sets what the sessions take from the environment."""
    parser.add_argument("--spill")
    parser.add_argument("--link")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["TENSORPAGER_PLAN_SYNC"] = "1"
    if options.link:
        os.environ["TENSORPAGER_LINK"] = options.link
    return options


def main() -> None:
    options = read_options(__doc__)
    print(
        f"measured: wall time of a step over plain torch's, medians of {options.rounds} interleaved rounds, torch at 1 thread"
    )
    print(
        "stalled, handling: of a planned step, waiting for transfers, and mapping and submitting in ops; moved: blocks out and in, a step"
    )
    print("predicted: the step that the plan foretells, over plain torch's of the same round")
    print(
        "overhead: paging over all other time of the session's ops: what the plan foretells, what was measured, and the least that any plan could"
    )
    print(f"{'':<12}{'':>9}{'':>8}{'':>10}{'step over plain torch':^32}{'overhead':^27}")
    print(
        f"{'work':<12}{'need MiB':>9}{'budget':>8}{'plain ms':>10}{'on demand':>11}{'planned':>10}{'predicted':>11}{'predicted':>11}{'measured':>10}{'bound':>7}{'followed':>10}{'stalled':>9}{'handling':>10}{'moved':>7}"
    )
    result = {}
    for name in options.only:
        measured = measure(CASES[name], [share / 100 for share in options.shares], options.rounds, options.spill)
        for share, row in measured["shares"].items():
            ratio = {
                variant: statistics.median(a / b for a, b in zip(row[variant], row["plain"]))
                for variant in ("on_demand", "planned")
            }
            ratio["predicted"] = statistics.median(
                one["predicted_window_seconds"] / plain for one, plain in zip(row["figures"], row["plain"])
            )
            figure = {key: statistics.median(one[key] for one in row["figures"]) for key in FIGURES}
            print(
                f"{name:<12}{measured['need_bytes'] / 2**20:>9.0f}{share:>8.0%}{statistics.median(row['plain']) * 1e3:>10.0f}{ratio['on_demand']:>11.2f}{ratio['planned']:>10.2f}{ratio['predicted']:>11.2f}"
                f"{figure['predicted_overhead']:>11.1%}{figure['measured_overhead']:>10.1%}{figure['lower_bound_overhead']:>7.1%}{figure['followed_share']:>10.0%}"
                f"{figure['stalled_share']:>9.1%}{figure['handling_share']:>10.1%}{figure['moved_blocks']:>7.0f}",
                flush=True,
            )
        result[name] = measured
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
