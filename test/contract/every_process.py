"""A program that uses loader workers, pools, queues and pipes in the ways there are, with tensors that are paged; prints what it saw exactly.

python every_process.py [CASE...]
"""

import hashlib
import sys
import threading

import numpy as np
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

ROWS, WIDTH, BATCH = 240, 8192, 24  # 7.5 MiB of float32 in all
CASES = []


def case(function):
    CASES.append(function)
    return function


def make_data():
    """Rows that are paged each by itself."""
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(WIDTH, generator=generator) for _ in range(ROWS)]


class Rows(Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index] * 2, torch.tensor(self.data[index][:3].tolist()), np.random.rand()


class Stream(IterableDataset):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for index in range(first, len(self.data), step):
            yield self.data[index].exp()


def seed(worker):
    np.random.seed(100 + worker)


def stacked(samples):
    rows, heads, draws = zip(*samples)
    return torch.stack(rows), torch.stack(heads), torch.tensor(draws)


def digest(*tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().clone().flatten().view(torch.uint8).numpy())
    return sha.hexdigest()[:16]


def train_on(loader, epochs=2):
    """Computes between the batches, so that the data set is evicted again and again."""
    weight = torch.zeros(WIDTH)
    for _ in range(epochs):
        for batch in loader:
            rows, *others = batch if isinstance(batch, (list, tuple)) else (batch,)
            weight += (rows.double() * 1.5).tanh().mean(0).float()
            for other in others:
                weight[:3] += other.double().mean().float()
    return digest(weight)


def load(data, **options):
    return train_on(DataLoader(data, batch_size=BATCH, **options))


@case
def forked_workers():
    return load(Rows(make_data()), num_workers=2, multiprocessing_context="fork", worker_init_fn=seed, pin_memory=True)


@case
def forked_workers_that_persist_and_prefetch():
    options = {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4, "collate_fn": stacked}
    return load(Rows(make_data()), multiprocessing_context="fork", worker_init_fn=seed, **options)


@case
def stream_that_workers_share():
    return load(Stream(make_data()), num_workers=2, multiprocessing_context="fork", persistent_workers=True)


@case
def spawned_workers_that_persist():
    options = {"num_workers": 2, "persistent_workers": True, "worker_init_fn": seed}
    return load(Rows(make_data()), multiprocessing_context="spawn", **options)


@case
def no_workers():
    np.random.seed(5)
    return load(Rows(make_data()), pin_memory=True)


def square(tensor):
    return tensor * tensor


def serve(requests, answers, state):
    model = torch.nn.Linear(256, 256)
    model.load_state_dict(state)
    for tensor in iter(requests.get, None):
        with torch.no_grad():
            answers.put(model(tensor))
    requests.get()  # tensors in a queue are their maker's: it ends after its reader


def exchange(method):
    context = mp.get_context(method)
    requests, answers = context.Queue(), context.Queue()
    torch.manual_seed(0)
    model = torch.nn.Linear(256, 256)
    process = context.Process(target=serve, args=(requests, answers, model.state_dict()))
    process.start()
    tensors = [torch.randn(200, 256) for _ in range(8)]
    for tensor in tensors:
        requests.put(tensor)
    results = [answers.get().clone() for _ in tensors]
    for _ in range(2):
        requests.put(None)
    process.join()
    return digest(*results), process.exitcode


@case
def queues_to_a_fork():
    return exchange("fork")


@case
def queues_to_a_spawned_process():
    return exchange("spawn")


def add_to(shared, connection):
    shared.add_(connection.recv())
    connection.send(shared.sum().item())


@case
def pipe_and_shared_tensor():
    context = mp.get_context("fork")
    ours, theirs = context.Pipe()
    shared = torch.full((300, 256), 1.5).share_memory_()
    process = context.Process(target=add_to, args=(shared, theirs))
    process.start()
    ours.send(torch.full((300, 256), 2.0))
    total = ours.recv()
    process.join()
    return digest(shared), total


@case
def pool():
    tensors = [torch.randn(100, 256, generator=torch.Generator().manual_seed(seed)) for seed in range(20)]
    with mp.get_context("fork").Pool(2) as workers:
        results = [result.clone() for result in workers.map(square, tensors)]
    return digest(*results)


@case
def files_instead_of_descriptors():
    mp.set_sharing_strategy("file_system")
    try:
        return exchange("fork")
    finally:
        mp.set_sharing_strategy("file_descriptor")


@case
def fork_while_a_thread_pages():
    tensors, done = [torch.full((100, 256), float(value)) for value in range(40)], threading.Event()

    def compute():
        while not done.is_set():
            for tensor in tensors:
                tensor.add_(1).sub_(1)

    thread = threading.Thread(target=compute)
    thread.start()
    context, codes = mp.get_context("fork"), []
    # Reads what the thread does not write: a child has the bytes of the moment of its fork.
    held = [torch.full((100, 256), float(value)) for value in range(20)]
    for _ in range(5):
        process = context.Process(target=check, args=(held,))
        process.start()
        process.join()
        codes.append(process.exitcode)
    done.set()
    thread.join()
    return digest(*tensors), codes


def check(tensors):
    assert [tensor.mean().item() for tensor in tensors] == [float(value) for value in range(20)]


def main():
    torch.set_num_threads(1)
    for run in CASES:
        if not sys.argv[1:] or run.__name__ in sys.argv[1:]:
            held = make_data()
            print(run.__name__, run(), digest(*held), flush=True)


if __name__ == "__main__":
    main()
