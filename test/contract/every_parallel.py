"""A program of two ranks that trains a model in each of the ways that torch.distributed has for it.

python every_parallel.py FOLDER [WAY...]        writes what rank N saw to FOLDER/N: one line a way
"""

import copy
import hashlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

RANKS, WIDTH, BATCH, STEPS = 2, 192, 256, 3
WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


class Net(nn.Module):
    """`skip` leaves out a layer, so that its parameters take no part in the step."""

    def __init__(self, layers=8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(layers))

    def forward(self, x, skip=None):
        for index, layer in enumerate(self.layers):
            if index != skip:
                x = x + layer(x)
        return x


def batches(rank, count=STEPS):
    generator = torch.Generator().manual_seed(rank)
    return [torch.randn(BATCH, WIDTH, generator=generator) for _ in range(count)]


def train(model, rank, optimizer=None, step=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for number, batch in enumerate(batches(rank)):
        if step is None:
            loss = (model(batch) - batch).square().mean()
            loss.backward()
        else:
            loss = step(number, batch)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *model.parameters()]


def net(seed=0):
    torch.manual_seed(seed)
    return Net()


@way
def plain_buckets(rank):
    return train(DistributedDataParallel(net(), bucket_cap_mb=0.3), rank)


@way
def gradients_in_buckets(rank):
    return train(DistributedDataParallel(net(), bucket_cap_mb=0.3, gradient_as_bucket_view=True), rank)


@way
def unused_parameters(rank):
    model = DistributedDataParallel(net(), bucket_cap_mb=0.3, find_unused_parameters=True)

    def step(number, batch):
        loss = (model(batch, skip=number + rank) - batch).square().mean()  # another layer on each rank
        loss.backward()
        return loss

    return train(model, rank, step=step)


@way
def static_graph(rank):
    return train(DistributedDataParallel(net(), bucket_cap_mb=0.3, static_graph=True), rank)


@way
def accumulation(rank):
    model = DistributedDataParallel(net(), bucket_cap_mb=0.3)

    def step(number, batch):
        first, second = batch.chunk(2)
        with model.no_sync():
            model(first).square().mean().backward()
        loss = model(second).square().mean()
        loss.backward()
        return loss

    return train(model, rank, step=step)


def hooked(rank, state, hook):
    model = DistributedDataParallel(net(), bucket_cap_mb=0.3)
    model.register_comm_hook(state, hook)
    return train(model, rank)


@way
def half_precision_hook(rank):
    return hooked(rank, None, default_hooks.fp16_compress_hook)


@way
def bfloat16_hook(rank):
    return hooked(rank, None, default_hooks.bf16_compress_hook)


@way
def hook_of_the_program(rank):
    def hook(state, bucket):
        tensor = bucket.buffer()
        return dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0].div(RANKS))

    return hooked(rank, None, hook)


@way
def sharded_optimizer(rank):
    model = DistributedDataParallel(net(), bucket_cap_mb=0.3)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    return train(model, rank, optimizer)


@way
def sampler(rank):
    data = TensorDataset(torch.arange(8 * BATCH * WIDTH, dtype=torch.float32).view(-1, WIDTH).sin())
    model, seen = DistributedDataParallel(net(), bucket_cap_mb=0.3), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = DistributedSampler(data, shuffle=True)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (batch,) in DataLoader(data, batch_size=BATCH, sampler=sampler):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.detach())
    return [*seen, *model.parameters()]


@way
def saved_and_loaded(rank):
    model = DistributedDataParallel(net(), bucket_cap_mb=0.3)
    train(model, rank)
    other = DistributedDataParallel(net(seed=1), bucket_cap_mb=0.3)
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    return train(other, rank)


@way
def fully_sharded_1(rank):
    model = FullyShardedDataParallel(net(), device_id=torch.device("cpu"), use_orig_params=True)
    return train(model, rank)


@way
def fully_sharded_2(rank):
    model = net()
    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return [getattr(tensor, "_local_tensor", tensor) for tensor in train(model, rank)]


@way
def tensor_parallel(rank):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

        def forward(self, x):
            return x + self.narrow(torch.tanh(self.wide(x)))

    torch.manual_seed(0)
    model = nn.Sequential(*(Pair() for _ in range(3)))
    mesh = dist.device_mesh.init_device_mesh("cpu", (RANKS,))
    plan = {"wide": ColwiseParallel(), "narrow": RowwiseParallel()}
    for pair in model:
        parallelize_module(pair, mesh, plan)
    return [getattr(tensor, "_local_tensor", tensor) for tensor in train(model, rank=0)]


def digest(tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().clone().contiguous().flatten().view(torch.uint8).numpy())
    return sha.hexdigest()


def work(rank, folder, names):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    with open(f"{folder}/{rank}", "w") as seen:
        for name in names:
            print(name, digest(WAYS[name](rank)), file=seen, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1], sys.argv[2:] or [*WAYS]), RANKS)
