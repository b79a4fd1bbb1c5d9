"""A rank of parallel training on a card, over gloo, for test_cuda_paging.py: prints what it has trained.

Usage: cuda_paging_ranks.py data_parallel|fully_sharded
"""

import sys

import torch
import torch.distributed as dist
from emulation_models import digest
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def data_parallel(model):
    return DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=1)


def fully_sharded(model):
    mesh = dist.device_mesh.init_device_mesh("cuda", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


WAYS = {"data_parallel": data_parallel, "fully_sharded": fully_sharded}


def main():
    torch.set_num_threads(1)
    torch.cuda.set_device(0)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = WAYS[sys.argv[1]](nn.Sequential(*[nn.Linear(256, 256) for _ in range(12)]).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(5):
        inputs = torch.randn(64, 256, generator=generator).cuda()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    trained = [getattr(tensor, "_local_tensor", tensor) for tensor in model.state_dict().values()]
    # By one write: torchrun starts ranks with -u, and print would write twice.
    sys.stdout.write(f"rank {rank}: {digest(*trained)}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
