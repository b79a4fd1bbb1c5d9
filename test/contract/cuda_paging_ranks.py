"""A rank of data-parallel training on a card, over gloo, for test_cuda_paging.py: prints what it has trained."""

import torch
import torch.distributed as dist
from emulation_models import digest
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(12)]).cuda()
    parallel = DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(parallel.parameters(), 1e-3, foreach=False)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(5):
        inputs = torch.randn(64, 256, generator=generator).cuda()
        optimizer.zero_grad()
        parallel(inputs).square().mean().backward()
        optimizer.step()
    print(f"rank {rank}: {digest(*model.state_dict().values())}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
