"""A program of two ranks: fully sharded training (FSDP2) over gloo.

python sharded.py FOLDER        writes what rank N saw to FOLDER/N
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

RANKS, WIDTH, STEPS = 2, 256, 14


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    mesh = dist.init_device_mesh("cpu", (RANKS,))
    blocks = [nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(10)]
    model = nn.Sequential(*(fully_shard(block, mesh=mesh) for block in blocks))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    torch.manual_seed(rank + 1)
    batch = torch.randn(2 * WIDTH, WIDTH)
    with open(f"{folder}/{rank}", "w") as seen:
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            print(loss.item().hex(), file=seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1],), RANKS)
