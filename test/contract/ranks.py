"""A program of two ranks: data parallel training over gloo, with collectives and messages under way while other ops allocate.

python ranks.py FOLDER        writes what rank N saw to FOLDER/N
"""

import hashlib
import sys

import torch
import torch.distributed as dist
from torch import nn

RANKS, WIDTH, STEPS = 2, 256, 4


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(12)))
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-3)
    torch.manual_seed(rank + 1)
    with open(f"{folder}/{rank}", "w") as seen:
        for _ in range(STEPS):
            batch = torch.randn(2 * WIDTH, WIDTH)
            loss = parallel(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            total = torch.full((WIDTH, WIDTH), float(rank))
            gathered = [torch.empty(WIDTH, WIDTH) for _ in range(RANKS)]
            under_way = [
                dist.all_reduce(total, async_op=True),
                dist.all_gather(gathered, batch[:WIDTH].clone(), async_op=True),
            ]
            noise = [torch.randn(WIDTH, WIDTH) for _ in range(8)]  # pressure before the waits
            for handle in under_way:
                handle.wait()
            message = torch.empty_like(batch)
            if rank == 0:
                dist.send(batch, 1)
            else:
                dist.recv(message, 0)
            for tensor in (loss, total.sum(), sum(part.sum() for part in gathered), sum(part.sum() for part in noise)):
                print(tensor.item().hex(), file=seen)
            if rank == 1:
                print(message.sum().item().hex(), file=seen)
        for parameter in model.parameters():
            print(hashlib.sha256(parameter.detach().numpy().tobytes()).hexdigest(), file=seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1],), RANKS)
