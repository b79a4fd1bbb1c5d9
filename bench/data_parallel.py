"""Steps of two ranks over gloo, data parallel (DDP) and fully sharded (FSDP2), plain and under plans in a share of each rank's need, against one
process with the whole batch; plain and paged in turn, in the same processes.

.venv/bin/python bench/data_parallel.py [--rounds 3] [--share 0.5] [--spill DIR|ram]

Scaling: samples a second of the ranks over as many times those of one process, both plain or both paged.
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import workloads
from following import MOST_STEPS_TO_LEARN, REFINING, SETTLING
from torch import nn
from torch.distributed.fsdp import fully_shard

import tensorpager

RANKS, WIDTH, LENGTH, BATCH = 2, 256, 128, 16
ABOVE_FLOOR = 1.1  # the least budget tried, in floors
# Ranks step together, so each session has as many steps: until its plan is refined, then in its way, then timed.
LEARNING, TIMED = MOST_STEPS_TO_LEARN + REFINING, 5
COUNTED = ("followed_ops", "stall_seconds", "handling_seconds", "handling_beside_seconds")


def data_parallel(model: nn.Module) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)


def fully_sharded(model: nn.Module) -> nn.Module:
    mesh = dist.init_device_mesh("cpu", (RANKS,))
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def make_step(batch: int, wrap):
    torch.manual_seed(0)
    model = wrap(nn.Sequential(*(workloads.Block(WIDTH, heads=4) for _ in range(8))))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(batch, LENGTH, WIDTH)

    def step():
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def timed(step, start) -> float:
    """Seconds of a step."""
    for _ in range(SETTLING):
        step()
    start()
    begin = time.perf_counter()
    for _ in range(TIMED):
        step()
    return (time.perf_counter() - begin) / TIMED


def under_plan(step, budget: int, spill: str | None, start) -> tuple[float, dict]:
    with tensorpager.enable(budget=budget, spill=spill, quiet=True):
        for _ in range(LEARNING):
            step()
        before = tensorpager.stats()
        seconds = timed(step, start)
        after = tensorpager.stats()
    counted = {name: (after[name] - before[name]) / (SETTLING + TIMED) for name in COUNTED}
    return seconds, after | counted


def measure(batch: int, wrap, options, start=lambda: None) -> dict:
    plain = make_step(batch, wrap)
    with tensorpager.enable(budget="unlimited", quiet=True):
        paged = make_step(batch, wrap)
        paged(), paged()
    stats = tensorpager.stats()
    budget = max(int(options.share * stats["need_bytes"]), int(ABOVE_FLOOR * stats["floor_bytes"]))
    rounds = []
    for _ in range(options.rounds):
        seconds = timed(plain, start)
        rounds.append((seconds, *under_plan(paged, budget, options.spill, start)))

    def middle(figure) -> float:
        return statistics.median(figure(*one) for one in rounds)

    return {
        "need": stats["need_bytes"] / 2**20,
        "budget": budget / 2**20,
        "plain": middle(lambda plain, paged, stats: plain),
        "paged": middle(lambda plain, paged, stats: paged),
        "ratio": middle(lambda plain, paged, stats: paged / plain),
        "followed": middle(lambda plain, paged, stats: stats["followed_ops"] / max(1, stats["window_ops"])),
        "stalled": middle(lambda plain, paged, stats: stats["stall_seconds"] / paged),
        "handling": middle(lambda plain, paged, stats: stats["handling_seconds"] / paged),
        "beside": middle(lambda plain, paged, stats: stats["handling_beside_seconds"] / paged),
    }


def show(name: str, row: dict, alone: dict | None = None) -> None:
    scaling = [f"{alone[key] / row[key] / RANKS:>9.1%}" for key in ("plain", "paged")] if alone else []
    print(
        f"{name:<24}{row['need']:>9.0f}{row['budget']:>8.0f}{row['plain'] * 1e3:>10.0f}{row['paged'] * 1e3:>10.0f}{row['ratio']:>7.2f}"
        f"{row['followed']:>10.0%}{row['stalled']:>9.1%}{row['handling']:>10.1%}{row['beside']:>8.1%}{''.join(scaling)}",
        flush=True,
    )


def work(rank: int, folder: str, options) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    alone = None
    if rank == 0:
        alone = measure(BATCH, lambda model: model, options)
        show(f"one process, batch {BATCH}", alone)
    dist.barrier()
    for wrap in (data_parallel, fully_sharded):
        row = measure(BATCH // RANKS, wrap, options, dist.barrier)
        if rank == 0:
            show(f"{wrap.__name__}, {RANKS} x {BATCH // RANKS}", row, alone)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--spill")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "TENSORPAGER_PLAN_SYNC": "1"}
    print(
        f"measured: wall time of a step, medians of {options.rounds} rounds, torch at 1 thread a rank, budget {options.share:.0%} of the need of"
        " each process;\nstalled, handling, beside: of a paged step, waiting for transfers, and mapping and submitting in ops and beside them"
    )
    print(
        f"{'':<24}{'need MiB':>9}{'budget':>8}{'plain ms':>10}{'paged ms':>10}{'ratio':>7}{'followed':>10}{'stalled':>9}{'handling':>10}"
        f"{'beside':>8}{'scaling':>9}{'paged':>9}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (folder, options), RANKS)


if __name__ == "__main__":
    main()
