"""Additive attention over longer and longer sentences: at a length T it makes T sums of T x batch x width and their tanh, so its need grows with T squared.
What a budget of that of one batch takes of the time, for that batch and for multiples of it: with plans that page only, and with plans that recompute too.

.venv/bin/python bench/attention.py [--lengths 50 100 200 400] [--batch 8] [--times 1 2 4 8] [--share 50] [--link 1GB/s] [--spill DIR|ram] [--json FILE]
"""

import argparse
import json

from following import ABOVE_FLOOR, in_session, read_with_session_options, timed
from recomputing import MIB, made_inside
from workloads import seq2seq

HEAD = f"{'T':>4}{'batch':>7}{'need MiB':>10}{'budget MiB':>12}{'':>6}{'plain':>9}{'pages':>9}{'hybrid':>9}{'out':>8}{'dropped':>9}"


def measure(length: int, batch: int, budget: int | None, options: argparse.Namespace) -> dict:
    """Of one batch. Without a budget it is a share of this batch's need. Has no times if the budget is too small."""
    step, need, floor = made_inside(seq2seq, length=length, batch=batch, width=options.width)
    budget = budget or int(need * options.share / 100)
    if budget < ABOVE_FLOOR * floor:
        return {"length": length, "batch": batch, "need_bytes": need, "budget_bytes": budget, "floor_bytes": floor}
    plain, _ = timed(seq2seq(length=length, batch=batch, width=options.width))
    pages, _ = in_session(step, budget, options.spill, on_demand=False)
    hybrid, figures = in_session(step, budget, options.spill, on_demand=False, recompute=True)
    each_step = figures["each_step"]
    return {
        "length": length,
        "batch": batch,
        "need_bytes": need,
        "floor_bytes": floor,
        "budget_bytes": budget,
        "plain_seconds": plain,
        "pages_seconds": pages,
        "hybrid_seconds": hybrid,
        "page_out_bytes": each_step["page_out_bytes"],
        "drop_bytes": each_step["drop_bytes"],
    }


def show(row: dict) -> str:
    text = f"{row['length']:>4}{row['batch']:>7}{row['need_bytes'] / MIB:>10.0f}{row['budget_bytes'] / MIB:>12.0f}{row['budget_bytes'] / row['need_bytes']:>6.0%}"
    if "plain_seconds" not in row:
        return f"{text}  the floor is {row['floor_bytes'] / MIB:.0f} MiB"
    each = [f"{1e3 * row[f'{name}_seconds'] / row['batch']:>9.1f}" for name in ("plain", "pages", "hybrid")]
    return f"{text}{''.join(each)}{row['page_out_bytes'] / MIB:>8.0f}{row['drop_bytes'] / MIB:>9.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 2, 4, 8], help="batches, as multiples of --batch")
    parser.add_argument("--share", type=int, default=50, help="the budget, in percent of what --batch needs")
    parser.add_argument("--width", type=int, default=128)
    options = read_with_session_options(parser)
    print("measured: wall ms of a step, divided by the batch; torch at 1 thread, one round")
    print("out, dropped: MiB of a step of the hybrid plan")
    print(HEAD)
    rows = []
    for length in options.lengths:
        budget = None
        for times in options.times:
            rows.append(measure(length, times * options.batch, budget, options))
            budget = rows[-1]["budget_bytes"]
            print(show(rows[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
