"""Training steps with plain torch, under plans that page only, under plans that recompute as well, and with torch.utils.checkpoint around
each block where the workload has that, in turn, in one process.

.venv/bin/python bench/recomputing.py [--rounds 3] [--link 1GB/s] [--spill DIR|ram] [--shares 75 50 33 25] [--only U-Net] [--json out/recomputing.json]
"""

import inspect
import json
import statistics

from following import ABOVE_FLOOR, in_session, read_options, timed
from workloads import CASES

import tensorpager

MIB = 1 << 20
VARIANTS = ("pages", "hybrid", "checkpoint")


def made_inside(build, **options) -> tuple:
    """A step whose tensors are the session's, with what it needs and its floor."""
    with tensorpager.enable(budget="unlimited", quiet=True):
        step = build(**options)
        step(), step()
    stats = tensorpager.stats()
    return step, stats["need_bytes"], stats["floor_bytes"]


def measure(build, shares: list[float], rounds: int, spill: str | None) -> dict:
    plain = build()
    inside, need, floor = made_inside(build)
    has_checkpoint = "recompute" in inspect.signature(build).parameters
    checkpoint = build(recompute=True) if has_checkpoint else None
    result = {"need_bytes": need, "floor_bytes": floor, "shares": {}}
    if has_checkpoint:
        result["checkpoint_bytes"] = made_inside(build, recompute=True)[1]
    for share in shares:
        row = result["shares"][share] = {"plain": [], "pages": [], "hybrid": [], "checkpoint": [], "figures": []}
        budget = max(int(share * need), int(ABOVE_FLOOR * floor))
        for _ in range(rounds):
            row["plain"].append(timed(plain)[0])
            if has_checkpoint:
                row["checkpoint"].append(timed(checkpoint)[0])
            row["pages"].append(in_session(inside, budget, spill, on_demand=False)[0])
            seconds, figures = in_session(inside, budget, spill, on_demand=False, recompute=True)
            row["hybrid"].append(seconds)
            row["figures"].append(figures)
    return result


def over_plain(row: dict, variant: str) -> str:
    if not row[variant]:
        return "-"
    return f"{statistics.median(a / b for a, b in zip(row[variant], row['plain'])):.2f}"


def describe(rounds: int) -> str:
    return f"""measured: wall time of a step over plain torch's, medians of {rounds} rounds in turn, torch at 1 thread
of hybrid: MiB of a step; its overhead in its own session: as its plan predicted, as measured, and the least of any plan that only pages
checkpoint: plain torch with checkpoint(); it has no budget, and needs what stands beside it
{"":<39}{"":>16} | {"hybrid":^42} |
{"work":<12}{"need MiB":>9}{"budget":>8}{"plain ms":>10}{"pages":>8}{"hybrid":>8} |{"out":>6}{"dropped":>9}{"predicted":>11}{"measured":>10}{"bound":>7} |{"checkpoint":>12}{"of the need":>13}"""


def describe_rows(name: str, measured: dict) -> list[str]:
    need = measured["need_bytes"]
    checkpoint_share = f"{measured['checkpoint_bytes'] / need:.0%}" if "checkpoint_bytes" in measured else "-"
    rows = []
    for share, row in measured["shares"].items():
        figures = row["figures"]
        moved = [
            statistics.median(one["each_step"][key] for one in figures) / MIB
            for key in ("page_out_bytes", "drop_bytes")
        ]
        overheads = [
            statistics.median(one[f"{key}_overhead"] for one in figures)
            for key in ("predicted", "measured", "lower_bound")
        ]
        ratios = [over_plain(row, variant) for variant in VARIANTS]
        rows.append(
            f"{name:<12}{need / MIB:>9.0f}{float(share):>8.0%}{statistics.median(row['plain']) * 1e3:>10.0f}{ratios[0]:>8}{ratios[1]:>8} |"
            f"{moved[0]:>6.0f}{moved[1]:>9.0f}{overheads[0]:>11.0%}{overheads[1]:>10.0%}{overheads[2]:>7.0%} |{ratios[2]:>12}{checkpoint_share:>13}"
        )
    return rows


def main() -> None:
    options = read_options(__doc__)
    print(describe(options.rounds))
    result = {}
    for name in options.only:
        measured = measure(CASES[name], [share / 100 for share in options.shares], options.rounds, options.spill)
        print("\n".join(describe_rows(name, measured)), flush=True)
        result[name] = measured
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
