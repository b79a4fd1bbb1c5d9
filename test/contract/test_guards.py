"""`tensorpager.pin(tensor)`: what it keeps stays resident and at its address, under both bindings."""

import ctypes
import gc

import pytest
import torch
from training import SHORT

import tensorpager
from tensorpager import _core

pytestmark = pytest.mark.forked

COUNT = 40_000  # floats: above the smallest paged size


@pytest.fixture(params=["stable", "rebinding"])
def session(request, spill):
    return lambda: tensorpager.enable(budget=SHORT, spill=spill, binding=request.param)


def press():
    """Pages out all that can be, more than once."""
    for _ in range(2):
        kept = [torch.zeros(COUNT) for _ in range(12)]
        del kept
    _core.page_out_all()


def floats_at(address):
    return (ctypes.c_float * COUNT).from_address(address)


def kept_bytes():
    """Bytes in blocks that stay when all is paged out."""
    _core.page_out_all()
    stats = tensorpager.stats()
    return stats["resident_bytes"] - stats["slab_bytes"]


def test_pinned_tensor_is_read_and_written_through_its_address(session):
    session()
    tensor = torch.arange(COUNT, dtype=torch.float32)
    with tensorpager.pin(tensor):
        address = tensor.data_ptr()
        press()
        there = floats_at(address)
        assert there[COUNT - 1] == COUNT - 1
        there[5] = -1.0
        press()
    press()
    assert tensor[5] == -1.0 and tensor.sum() == sum(range(COUNT)) - 6


def test_guard_ends_with_its_block_its_release_and_its_life(session):
    session()
    tensor = torch.zeros(COUNT)
    with tensorpager.pin(tensor, tensor):
        assert kept_bytes() >= 4 * COUNT
    assert kept_bytes() == 0
    guard = tensorpager.pin(tensor.untyped_storage())
    assert kept_bytes() >= 4 * COUNT
    guard.release()
    guard.release()
    assert kept_bytes() == 0
    guard = tensorpager.pin(tensor)
    assert kept_bytes() >= 4 * COUNT
    del guard
    gc.collect()
    assert kept_bytes() == 0


def test_guard_keeps_its_tensor_alive(session):
    session()
    guard = tensorpager.pin(torch.full((COUNT,), 3.0))
    live = tensorpager.stats()["live_blocks"]
    press()
    assert tensorpager.stats()["live_blocks"] == live
    guard.release()
    assert tensorpager.stats()["live_blocks"] == live - 1


def test_more_guards_than_the_budget_are_refused_and_hold_nothing(session):
    session()
    tensors = [torch.full((COUNT,), float(i)) for i in range(2 * SHORT // (4 * COUNT))]
    with pytest.raises(torch.OutOfMemoryError, match=r"pin\(\): .*budget"):
        tensorpager.pin(*tensors)
    assert kept_bytes() == 0
    assert [int(tensor[0]) for tensor in tensors] == list(range(len(tensors)))


def test_without_a_session_nothing_is_pinned():
    tensor = torch.zeros(COUNT)
    with tensorpager.pin(tensor) as guard:
        assert floats_at(tensor.data_ptr())[7] == 0.0
    guard.release()


def test_tensor_without_a_storage_is_refused(session):
    session()
    sparse = torch.eye(8).to_sparse()
    with pytest.raises(ValueError, match="has no storage"):
        tensorpager.pin(torch.zeros(COUNT), sparse)
    assert kept_bytes() == 0
    with tensorpager.pin(sparse.values()):
        pass
