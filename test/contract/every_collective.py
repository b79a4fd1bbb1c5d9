"""A program of two ranks that makes every collective there is, with work under way while other ops allocate.

python every_collective.py FOLDER        writes what rank N saw to FOLDER/N: one line a collective
"""

import hashlib
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

RANKS, WIDTH, ROUNDS = 2, 192, 2
CASES = []


def case(function):
    CASES.append(function)
    return function


def filled(rank, seed, rows=WIDTH, dtype=torch.float32):
    """Other values on each rank."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randn(rows, WIDTH, generator=generator).to(dtype)


def pressure():
    """Allocations between the start of a collective and the wait for it."""
    return torch.stack([torch.ones(WIDTH, WIDTH).mul_(value).exp() for value in range(8)]).sum(0)


def finish(*under_way):
    noise = pressure()
    for work in under_way:
        work.wait()
    return noise


@case
def all_reduce(rank):
    sums = [filled(rank, 1), filled(rank, 2, dtype=torch.bfloat16), filled(rank, 3, dtype=torch.float64)]
    noise = finish(*(dist.all_reduce(tensor, async_op=True) for tensor in sums))
    largest = filled(rank, 4)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    return [*sums, noise, largest]


@case
def all_reduce_coalesced(rank):
    tensors = [filled(rank, seed) for seed in range(3)]
    return [finish(dist.all_reduce_coalesced(tensors, async_op=True)), *tensors]


@case
def all_reduce_of_a_sparse_tensor(rank):
    sparse = filled(rank, 1).relu().to_sparse()
    dist.all_reduce(sparse)
    return [sparse.to_dense()]


@case
def reduce_to_one(rank):
    tensor = filled(rank, 1)
    noise = finish(dist.reduce(tensor, 1, async_op=True))
    return [tensor if rank == 1 else noise]


@case
def broadcast(rank):
    tensor = filled(rank, 1)
    return [finish(dist.broadcast(tensor, 1, async_op=True)), tensor]


@case
def all_gather(rank):
    parts = [torch.empty(WIDTH, WIDTH) for _ in range(RANKS)]
    return [finish(dist.all_gather(parts, filled(rank, 1), async_op=True)), *parts]


@case
def all_gather_into_tensor(rank):
    whole = torch.empty(RANKS * WIDTH, WIDTH)
    return [finish(dist.all_gather_into_tensor(whole, filled(rank, 1), async_op=True)), whole]


@case
def gather(rank):
    parts = [torch.empty(WIDTH, WIDTH) for _ in range(RANKS)] if rank == 0 else None
    return [finish(dist.gather(filled(rank, 1), parts, 0, async_op=True)), *(parts or [])]


@case
def scatter(rank):
    part = torch.empty(WIDTH, WIDTH)
    parts = [filled(rank, seed) for seed in range(RANKS)] if rank == 1 else None
    return [finish(dist.scatter(part, parts, 1, async_op=True)), part]


@case
def reduce_scatter(rank):
    part = torch.empty(WIDTH, WIDTH)
    return [finish(dist.reduce_scatter(part, [filled(rank, seed) for seed in range(RANKS)], async_op=True)), part]


@case
def reduce_scatter_tensor(rank):
    part = torch.empty(WIDTH, WIDTH)
    return [finish(dist.reduce_scatter_tensor(part, filled(rank, 1, RANKS * WIDTH), async_op=True)), part]


@case
def all_to_all_single(rank):
    taken = torch.empty(RANKS * WIDTH, WIDTH)
    uneven = torch.empty(WIDTH + 2 * rank, WIDTH)
    sizes = [WIDTH // 2 + rank, WIDTH // 2 + rank], [WIDTH // 2, WIDTH // 2 + 1]
    noise = finish(
        dist.all_to_all_single(taken, filled(rank, 1, RANKS * WIDTH), async_op=True),
        dist.all_to_all_single(uneven, filled(rank, 2, WIDTH + 1), *sizes, async_op=True),
    )
    return [noise, taken, uneven]


@case
def send_and_receive(rank):
    taken = torch.empty(WIDTH, WIDTH)
    if rank == 0:
        dist.send(filled(rank, 1), 1)
        dist.recv(taken, 1, tag=7)
    else:
        dist.recv(taken)  # from any rank
        dist.send(taken + 1, 0, tag=7)
    return [taken]


@case
def isend_and_irecv(rank):
    taken = [torch.empty(WIDTH, WIDTH) for _ in range(3)]
    under_way = [dist.irecv(tensor, 1 - rank, tag=tag) for tag, tensor in enumerate(taken)]
    under_way += [dist.isend(filled(rank, tag), 1 - rank, tag=tag) for tag in range(3)]
    return [finish(*under_way), *taken]


@case
def batch_of_messages(rank):
    taken, given = torch.empty(WIDTH, WIDTH), filled(rank, 1)
    messages = [dist.P2POp(dist.isend, given, 1 - rank), dist.P2POp(dist.irecv, taken, 1 - rank)]
    return [finish(*dist.batch_isend_irecv(messages)), taken]


@case
def objects(rank):
    gathered, scattered, told = [None] * RANKS, [None], [{"rank": rank, "tensor": filled(rank, 1)}]
    dist.all_gather_object(gathered, {"rank": rank, "tensor": filled(rank, 2)})
    dist.broadcast_object_list(told, 1)
    dist.scatter_object_list(scattered, [filled(rank, 3), filled(rank, 4)] if rank == 0 else None, 0)
    return [told[0]["tensor"], *(one["tensor"] for one in gathered), scattered[0]]


@case
def barriers(rank):
    tensor = filled(rank, 1)
    finish(dist.barrier(async_op=True))
    dist.monitored_barrier()
    return [tensor]


@case
def functional_collectives(rank):
    group = dist.group.WORLD
    results = [
        functional.all_reduce(filled(rank, 1), "sum", group),
        functional.all_gather_tensor(filled(rank, 2), 0, group),
        functional.reduce_scatter_tensor(filled(rank, 3, RANKS * WIDTH), "sum", 0, group),
        functional.broadcast(filled(rank, 4), 1, group),
        functional.all_to_all_single(filled(rank, 5, RANKS * WIDTH), None, None, group),
    ]
    return [pressure(), *(functional.wait_tensor(result) for result in results)]


@case
def functional_collectives_that_are_waited_for_by_the_first_use(rank):
    group = dist.group.WORLD
    results = [functional.all_reduce(filled(rank, seed), "sum", group) for seed in range(3)]
    noise = pressure()
    return [noise, *(result.mul(2) for result in results)]


@case
def functional_coalesced(rank):
    group = dist.group.WORLD
    both = [filled(rank, 1), filled(rank, 2)]
    results = [
        *functional.all_reduce_coalesced(both, "sum", group),
        *functional.all_gather_into_tensor_coalesced(both, group),
    ]
    return [pressure(), *(functional.wait_tensor(result) for result in results)]


@case
def raw_functional_ops(rank):
    ops, name = torch.ops._c10d_functional, dist.group.WORLD.group_name
    in_place = filled(rank, 1)
    ops.all_reduce_(in_place, "sum", name)
    gathered = ops.all_gather_into_tensor(filled(rank, 2), RANKS, name)
    scattered = ops.reduce_scatter_tensor_coalesced([filled(rank, 3, RANKS * WIDTH)] * 2, "sum", RANKS, name)
    return [pressure(), *(ops.wait_tensor(result) for result in (in_place, gathered, *scattered))]


@case
def collectives_in_a_group_of_their_own(rank):
    group = dist.new_group([0, 1])
    tensor = filled(rank, 1)
    noise = finish(dist.all_reduce(tensor, group=group, async_op=True))
    dist.destroy_process_group(group)
    return [noise, tensor]


@case
def future_of_a_collective(rank):
    tensor = filled(rank, 1)
    future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    noise = pressure()
    return [noise, future.wait(), tensor]


def digest(tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().clone().contiguous().flatten().view(torch.uint8).numpy())
    return sha.hexdigest()


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    with open(f"{folder}/{rank}", "w") as seen:
        for _ in range(ROUNDS):
            held = [filled(rank, seed) for seed in range(100)]  # what else a program has in memory
            for run in CASES:
                print(run.__name__, digest(run(rank)), file=seen, flush=True)
            print("held", digest(held), file=seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (sys.argv[1],), RANKS)
