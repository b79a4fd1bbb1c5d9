"""Threads of the program: each is seen from its first op on, and none sees another's half-moved bytes."""

import ctypes
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from training import SHORT, digest, make_model, train

import tensorpager
from tensorpager import _core

pytestmark = pytest.mark.forked


def in_threads(*bodies):
    """Runs them at once; returns their results in order, or raises the first error."""
    with ThreadPoolExecutor(len(bodies)) as pool:
        return [future.result() for future in [pool.submit(body) for body in bodies]]


def test_models_trained_at_once_equal_each_trained_alone(spill):
    def training(seed):
        def body():
            losses = train(model := models[seed], steps=8, seed=seed)
            return losses, digest(*model.parameters())

        return body

    models = [make_model(seed) for seed in range(3)]
    alone = [training(seed)() for seed in range(3)]
    tensorpager.enable(budget=2 * SHORT, spill=spill)
    models = [make_model(seed) for seed in range(3)]
    _core.page_out_all()
    assert in_threads(*(training(seed) for seed in range(3))) == alone
    stats = tensorpager.stats()
    assert stats["page_outs"] > 100
    assert (stats["pins"], stats["over_budget_bytes"]) == (0, 0)
    assert stats["peak_bytes"] <= 2 * SHORT


def test_thread_that_allocates_nothing_is_seen_from_its_first_op_on(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensor, ones = torch.zeros(100, 100), torch.ones(100, 100)

    def body():
        for _ in range(10):
            tensor.add_(ones)

    before = tensorpager.stats()["ops"]
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert tensorpager.stats()["ops"] - before == 10
    assert tensor.min() == tensor.max() == 10


def test_subclass_that_overrides_run_and_timer_threads_are_seen_too(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensor, ones = torch.zeros(100, 100), torch.ones(100, 100)

    class Worker(threading.Thread):
        def run(self):
            tensor.add_(ones)

    before = tensorpager.stats()["ops"]
    for thread in (Worker(), threading.Timer(0, tensor.add_, [ones])):
        thread.start()
        thread.join()
    assert tensorpager.stats()["ops"] - before == 2


def test_thread_from_before_the_session_is_seen_after_its_first_allocation_and_right_before(spill):
    go, result = threading.Event(), []

    def body():
        go.wait()
        result.append(tensor.tolist())
        tensor.add_(1)
        result.append(torch.ones(100, 100).add_(tensor).sum().item())

    thread = threading.Thread(target=body)
    thread.start()
    tensorpager.enable(budget=SHORT, spill=spill)
    tensor = torch.zeros(100, 100)
    _core.page_out_all()
    before = tensorpager.stats()["ops"]
    go.set()
    thread.join()
    assert result == [[[0.0] * 100] * 100, 20_000]
    assert tensorpager.stats()["ops"] > before


def test_pool_threads_share_tensors_that_are_paged_all_the_time(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensors = [torch.full((100, 256), float(value)) for value in range(30)]

    def work(value):
        total = sum(tensor.sum().item() for tensor in tensors)
        return (tensors[value] + 1).mean().item(), total / (100 * 256)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(30)))
    assert results == [(value + 1, sum(range(30))) for value in range(30)]
    assert tensorpager.stats()["page_ins"] > 100


@pytest.mark.stable("it takes the fault handler")
def test_threads_outside_ops_neither_see_nor_lose_half_moved_bytes(spill):
    # libc's functions run without Python's lock, so they touch the pages in the middle of page-outs: one thread pages everything out again and
    # again, one compares bytes that never change, one writes a block and compares what it wrote, one counts by ops.
    tensorpager.enable(budget=2 * SHORT, spill=spill)
    libc, count = ctypes.CDLL(None), 80_000
    constant, written, counter = (torch.full((count // 4,), 7.0) for _ in range(3))
    sevens = constant.numpy().tobytes()
    patterns = [bytes([value]) * count for value in range(8)]
    done = threading.Event()

    def same(tensor, expected):
        return libc.memcmp(ctypes.c_void_p(tensor.data_ptr()), expected, count) == 0

    def evict():
        while not done.is_set():
            _core.page_out_all()

    def read():
        while not done.is_set():
            assert same(constant, sevens)

    def write():
        while not done.is_set():
            for value, pattern in enumerate(patterns):
                libc.memset(ctypes.c_void_p(written.data_ptr()), value, count)
                assert same(written, pattern)

    def compute():
        try:
            steps = 0
            while min(tensorpager.stats()[name] for name in ("faults", "page_outs")) < 100:
                counter.add_(1)
                steps += 1
        finally:
            done.set()
        return counter.unique().tolist() == [7.0 + steps]

    assert in_threads(evict, read, write, compute)[-1]


def test_tensor_made_in_one_thread_and_freed_in_another_leaves_nothing(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    made = in_threads(lambda: [torch.zeros(100, 100) + i for i in range(20)] + [torch.zeros(9) for _ in range(200)])[0]
    _core.page_out_all()
    in_threads(made.clear)
    gc.collect()
    stats = tensorpager.stats()
    assert (stats["live_blocks"], stats["records"], stats["pins"]) == (0, 0, 0)


def test_error_of_one_thread_leaves_the_others_alone(spill):
    expected = train(make_model(), steps=4)
    tensorpager.enable(budget=3 * SHORT, spill=spill)
    model = make_model()

    def too_large():
        for _ in range(20):
            with pytest.raises(torch.OutOfMemoryError, match="Tensorpager: aten::"):
                torch.zeros(1024, 1024)

    losses, _ = in_threads(lambda: train(model, steps=4), too_large)
    assert losses == expected


def test_training_beside_a_reader_of_an_array_and_a_maker_of_tensors_has_the_same_bits(spill):
    expected = [train(make_model(seed), steps=8, seed=seed) for seed in range(2)]
    tensorpager.enable(budget=3 * SHORT, spill=spill, fuzz=1)
    models = [make_model(seed) for seed in range(2)]  # not in the threads: they would share the global generator
    array, values = torch.arange(30_000.0).numpy(), list(range(20_000))
    ascending = array.tobytes()
    done = threading.Event()

    def training(seed):
        return lambda: train(models[seed], steps=8, seed=seed)

    def read():
        reads = 0
        while not done.is_set() or not reads:
            assert array.tobytes() == ascending
            reads += 1

    def make():
        kept = []
        while not done.is_set() or not kept:
            kept = [*kept[-4:], torch.tensor(values), torch.tensor(values, dtype=torch.float64)]
            assert kept[0].sum().item() == 20_000 * 19_999 / 2

    with ThreadPoolExecutor(2) as beside:
        others = [beside.submit(body) for body in (read, make)]
        try:
            assert in_threads(training(0), training(1)) == expected
        finally:
            done.set()
        for other in others:
            other.result()
    stats = tensorpager.stats()
    assert stats["fuzz_page_outs"] > 100 and stats["pins"] == stats["over_budget_bytes"] == 0


SKIPPED = 2048  # elements; two pages


def alias_that_no_op_knows(tensor, skipped=SKIPPED):
    """All but its first pages, as foreign memory: by its address it is no block's beginning, so ops do not bring it in."""
    address = ctypes.addressof(ctypes.c_char.from_address(tensor.data_ptr())) + 4 * skipped
    return torch.from_numpy(np.ctypeslib.as_array((ctypes.c_float * (tensor.numel() - skipped)).from_address(address)))


@pytest.mark.stable("it takes the fault handler")
def test_threads_of_one_kernel_fault_in_its_parallel_region_and_see_the_right_bytes(spill):
    tensorpager.enable(budget=8 * SHORT, spill=spill)
    torch.set_num_threads(2)
    tensors = [torch.arange(400_000.0) + value for value in range(4)]
    aliases = [alias_that_no_op_knows(tensor) for tensor in tensors]
    expected = [[tensor[SKIPPED:].sin() + step for step in range(3)] for tensor in tensors]
    for step in range(3):
        _core.page_out_all()
        before = tensorpager.stats()["faults"]
        for alias, values in zip(aliases, expected):
            assert torch.equal(alias.sin().add_(step), values[step])
        assert tensorpager.stats()["faults"] > before
        _core.page_out_all()
        for alias in aliases:  # both threads write
            alias.add_(1).sub_(1)
    assert all(torch.equal(tensor, torch.arange(400_000.0) + value) for value, tensor in enumerate(tensors))


@pytest.mark.stable("it takes the fault handler")
def test_backward_in_threads_reads_saved_bytes_that_only_faults_bring_in(spill):
    tensorpager.enable(budget=8 * SHORT, spill=spill)
    torch.set_num_threads(2)

    def body():
        data = torch.arange(100_000.0) / 1000
        weight = torch.ones(100_000 - SKIPPED, requires_grad=True)
        loss = (alias_that_no_op_knows(data) * weight).square().sum()  # saves the alias
        _core.page_out_all()
        loss.backward()
        return torch.equal(weight.grad, 2 * data[SKIPPED:] * data[SKIPPED:])

    assert in_threads(*[body] * 3) == [True] * 3
    assert tensorpager.stats()["faults"] > 0


def test_models_train_while_others_read_an_array_and_build_tensors(spill):
    expected = [train(make_model(seed), steps=6, seed=seed) for seed in range(3)]
    tensorpager.enable(budget=4 * SHORT, spill=spill)
    models, done = [make_model(seed) for seed in range(3)], threading.Event()
    shared = torch.arange(40_000.0)
    array, total = shared.numpy(), sum(range(40_000))
    values = [float(value % 17) for value in range(8000)]
    left, finished = [len(models)], threading.Lock()

    def training(seed):
        def body():
            try:
                return train(models[seed], steps=6, seed=seed)
            finally:
                with finished:
                    left[0] -= 1
                    if left[0] == 0:
                        done.set()

        return body

    def until_done(look):
        def body():
            looks = 0
            while not done.is_set() or looks == 0:
                assert look()
                looks += 1
            return looks

        return body

    results = in_threads(
        *(training(seed) for seed in range(3)),
        until_done(lambda: array.sum(dtype=np.float64) == total),
        until_done(lambda: torch.tensor(values).sum().item() == sum(values)),
    )
    assert results[:3] == expected
    assert min(results[3:]) > 0
    stats = tensorpager.stats()
    assert stats["page_outs"] > 0 and stats["over_budget_bytes"] == 0
