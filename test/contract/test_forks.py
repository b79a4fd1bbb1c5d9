"""A fork while bytes are paged out: both processes see their own, and neither writes into the other's spill file."""

import faulthandler
import multiprocessing
import os
import threading

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from training import SHORT, digest, evict, make_model, train

import tensorpager
from tensorpager import _core

pytestmark = pytest.mark.forked


def in_a_fork(body):
    """Runs `body` in a fork at once; returns a function that waits for the result."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, repr(body()).encode())
        finally:
            os._exit(0)
    os.close(write_end)

    def wait():
        with open(read_end) as file:
            text = file.read()
        assert os.waitpid(pid, 0)[1] == 0
        return eval(text)

    return wait


def test_child_reads_what_was_paged_out_while_the_parent_trains_on(spill):
    model = make_model()
    expected = [train(model), digest(*model.parameters()), train(model, seed=1), digest(*model.parameters())]
    tensorpager.enable(budget=SHORT, spill=spill)
    model = make_model()
    result = [train(model)]
    evict()
    wait = in_a_fork(lambda: [digest(*model.parameters()) for _ in range(5)])
    result += [digest(*model.parameters()), train(model, seed=1), digest(*model.parameters())]
    assert result == expected
    assert wait() == [expected[1]] * 5


def test_child_and_parent_train_on_from_the_same_bytes_each_by_itself(spill):
    model = make_model()
    train(model)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    expected = []
    for seed in (1, 2):
        model.load_state_dict(state)
        expected.append((train(model, seed=seed), digest(*model.parameters())))

    tensorpager.enable(budget=SHORT, spill=spill)
    model = make_model()
    train(model)
    evict()
    wait = in_a_fork(lambda: (train(model, seed=1), digest(*model.parameters()), tensorpager.stats()["page_outs"]))
    page_outs = tensorpager.stats()["page_outs"]
    assert (train(model, seed=2), digest(*model.parameters())) == expected[1]
    *childs, page_outs_of_child = wait()
    assert tuple(childs) == expected[0]
    assert page_outs_of_child > page_outs < tensorpager.stats()["page_outs"]


def test_fork_of_a_fork_reads_its_grandparents_bytes(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensors = [torch.full((100, 256), float(value)) for value in range(20)]
    evict()

    def child():
        tensors[0].add_(100)
        evict()
        grandchild = in_a_fork(lambda: [tensor.mean().item() for tensor in tensors])
        tensors[1].add_(100)
        return grandchild(), [tensor.mean().item() for tensor in tensors]

    wait = in_a_fork(child)
    tensors[2].add_(100)
    assert [tensor.mean().item() for tensor in tensors] == [0, 1, 102, *range(3, 20)]
    assert wait() == ([100, *range(1, 20)], [100, 101, *range(2, 20)])


def test_child_that_outlives_its_parents_tensors_keeps_their_bytes(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensors = [torch.full((100, 256), float(value)) for value in range(20)]
    evict()
    go_read, go_write = os.pipe()

    def child():
        os.read(go_read, 1)
        return [tensor.mean().item() for tensor in tensors]

    wait = in_a_fork(child)
    tensors.clear()
    others = [torch.full((100, 256), -1.0) for _ in range(40)]  # into the slots that came free, were they shared
    evict()
    os.write(go_write, b"x")
    assert wait() == [*range(20)]
    assert all(tensor.mean() == -1 for tensor in others)


def test_forks_while_threads_compute_and_read_are_right(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensors = [torch.full((100, 256), float(value)) for value in range(20)]
    stop = threading.Event()

    def compute():
        while not stop.is_set():
            for value, tensor in enumerate(tensors):
                assert (tensor + 1)[5, 5].item() == value + 1

    # torch makes static objects in the first call of an op; a child that is forked meanwhile would wait for ever.
    assert (tensors[0] + 1)[5, 5].item() == 1
    assert tensors[0].mean().item() == 0
    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        assert in_a_fork(lambda: [tensor.mean().item() for tensor in tensors])() == [*range(20)]
    stop.set()
    for thread in threads:
        thread.join()


def test_multiprocessing_child_computes_with_evicted_tensors(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensors = [torch.full((100, 256), float(value)) for value in range(20)]
    evict()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(_mean, tensors)
    assert results == [*range(20)]


def _mean(tensor):
    return tensor.mean().item()


class Rows(Dataset):
    def __init__(self, data):
        self._data = data

    def __len__(self):
        return len(self._data)

    def __getitem__(self, index):
        return torch.tensor(self._data[index].tolist()), self._data[index].sum()


@pytest.mark.parametrize("persistent", [False, True])
def test_loader_workers_read_an_evicted_dataset(spill, persistent):
    tensorpager.enable(budget=SHORT, spill=spill)
    data = torch.arange(40_000.0).reshape(40, 1000)
    loader = DataLoader(
        Rows(data), batch_size=4, num_workers=2, multiprocessing_context="fork", persistent_workers=persistent
    )
    for _ in range(2):
        evict()
        rows, sums = zip(*loader)
        _core.page_out_all()
        assert torch.equal(torch.cat(rows), data)
        assert torch.equal(torch.cat(sums), data.sum(1))


@pytest.mark.stable("it takes the fault handler")
@pytest.mark.parametrize("when", ["before", "after"])
def test_faulthandler_enabled_before_or_after_does_not_take_our_faults(spill, when, tmp_path):
    with open(tmp_path / "crash", "w+") as report:
        faulthandler.disable()
        if when == "before":
            faulthandler.enable(report)
        tensorpager.enable(budget=SHORT, spill=spill)
        if when == "after":
            faulthandler.enable(report)
        tensor = torch.arange(40_000.0)
        evict()
        assert tensor.tolist() == [*range(40_000)]
        assert tensorpager.stats()["faults"] > 0
        report.seek(0)
        assert report.read() == ""


@pytest.mark.parametrize("when", ["before", "after"])
def test_real_crash_is_still_reported_by_faulthandler(spill, when, tmp_path):
    with open(tmp_path / "crash", "w+") as report:
        faulthandler.disable()
        if when == "before":
            faulthandler.enable(report)
        tensorpager.enable(budget=SHORT, spill=spill)
        if when == "after":
            faulthandler.enable(report)
        pid = os.fork()
        if pid == 0:
            import ctypes

            ctypes.string_at(16)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -11
        report.seek(0)
        assert "Fatal Python error: Segmentation fault" in report.read()
