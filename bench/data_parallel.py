"""Steps of two data parallel ranks over gloo, plain and in a share of each rank's need, against one process with the whole batch; in turn, in the same processes.

.venv/bin/python bench/data_parallel.py [--rounds 5] [--share 0.4] [--spill DIR|ram]
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import workloads
from torch import nn

import tensorpager

RANKS, WIDTH, LENGTH, BATCH = 2, 256, 128, 16
ABOVE_FLOOR = 1.1  # the least budget tried, in floors


def make_step(batch: int, parallel: bool):
    torch.manual_seed(0)
    model = nn.Sequential(*(workloads.Block(WIDTH, heads=4) for _ in range(8)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    trained = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2) if parallel else model
    x = torch.randn(batch, LENGTH, WIDTH)

    def step():
        loss = trained(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def timed(step, start) -> float:
    start()
    step()  # after a switch of sessions: bring the working set in
    start()
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def measure(batch: int, parallel: bool, options, start) -> tuple[dict, dict]:
    """Seconds by variant, and the figures of the last session."""
    plain = make_step(batch, parallel)
    with tensorpager.enable(budget="unlimited", quiet=True):
        paged = make_step(batch, parallel)
        paged(), paged()
    stats = tensorpager.stats()
    budget = max(int(options.share * stats["need_bytes"]), int(ABOVE_FLOOR * stats["floor_bytes"]))
    seconds = {"plain": [], "paged": []}
    for _ in range(options.rounds):
        seconds["plain"].append(timed(plain, start))
        with tensorpager.enable(budget=budget, spill=options.spill, quiet=True):
            seconds["paged"].append(timed(paged, start))
    return seconds, tensorpager.stats()


def show(name: str, seconds: dict, stats: dict, base: float | None) -> float:
    plain = statistics.median(seconds["plain"])
    ratio = statistics.median(a / b for a, b in zip(seconds["paged"], seconds["plain"]))
    print(
        f"{name:<28}{stats['need_bytes'] / 2**20:>9.0f}{stats['budget_bytes'] / 2**20:>11.0f}{plain * 1e3:>10.0f}"
        f"{statistics.median(seconds['paged']) * 1e3:>10.0f}{ratio:>8.2f}{plain / (base or plain):>18.2f}",
        flush=True,
    )
    return plain


def work(rank: int, folder: str, options) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    alone = None
    if rank == 0:
        alone = show(f"one process, batch {BATCH}", *measure(BATCH, False, options, lambda: None), None)
    dist.barrier()
    result = measure(BATCH // RANKS, True, options, dist.barrier)
    if rank == 0:
        show(f"{RANKS} ranks, batch {BATCH // RANKS} each", *result, alone)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--spill")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    print(
        f"measured: wall time of a step, medians of {options.rounds} interleaved rounds, torch at 1 thread a rank,"
        f" budget {options.share:.0%} of the need of each process"
    )
    print(
        f"{'':<28}{'need MiB':>9}{'budget MiB':>11}{'plain ms':>10}{'paged ms':>10}{'ratio':>8}{'plain/one process':>18}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (folder, options), RANKS)


if __name__ == "__main__":
    main()
