"""The same memory by other means: each block of the model under `torch.utils.checkpoint`, which computes it again, and the unchanged model paged by Tensorpager
under a budget of what the other needs.

.venv/bin/python bench/peers/checkpoint.py [--rounds 3] [--spill DIR|ram] [--json out/checkpoint.json]
"""

import argparse
import json
import pathlib
import statistics
import sys
from functools import partial

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from following import in_session, timed  # noqa: E402  (of the folder above)
from workloads import CASES  # noqa: E402

import tensorpager  # noqa: E402

MODELS = ("ResNet-18", "GPT-2 like")  # made of blocks


def need_of(build) -> int:
    with tensorpager.enable(budget="unlimited", quiet=True):
        step = build()
        step(), step()
    return tensorpager.stats()["need_bytes"]


def measure(name: str, rounds: int, spill: str | None) -> dict:
    build, recomputing = CASES[name], partial(CASES[name], recompute=True)
    need, budget = need_of(build), need_of(recomputing)
    plain, recomputed = build(), recomputing()
    with tensorpager.enable(budget="unlimited", quiet=True):
        paged = build()
    ratios = {"recomputed": [], "paged": []}
    for _ in range(rounds):
        base = timed(plain)
        ratios["recomputed"].append(timed(recomputed) / base)
        ratios["paged"].append(in_session(paged, budget, spill, False)[0] / base)
    return {"need_bytes": need, "budget_bytes": budget, **ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spill")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"measured: wall time of a step over plain torch's, medians of {options.rounds} interleaved rounds, torch at 1 thread"
    )
    print(f"{'work':<12}{'need MiB':>9}{'checkpointed':>14}{'time':>7}{'paged to that':>15}")
    result = {}
    for name in MODELS:
        figures = result[name] = measure(name, options.rounds, options.spill)
        print(
            f"{name:<12}{figures['need_bytes'] / 2**20:>9.0f}{figures['budget_bytes'] / figures['need_bytes']:>14.0%}"
            f"{statistics.median(figures['recomputed']):>7.2f}{statistics.median(figures['paged']):>15.2f}",
            flush=True,
        )
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
