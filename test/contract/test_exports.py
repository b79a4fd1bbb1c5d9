"""Memory that leaves torch: arrays, capsules, addresses and system calls see the right bytes while everything else is paged out."""

import ctypes
import gc
import io
import os
import socket
import sys

import numpy as np
import pytest
import torch
from training import SHORT, evict

import tensorpager
from tensorpager import _core

pytestmark = pytest.mark.forked

COUNT = 40_000  # floats: above the smallest paged size, and not a whole number of pages
BYTES = 4 * COUNT


@pytest.fixture
def session(spill):
    """Options of a session for the test to begin in its fork."""
    return lambda: tensorpager.enable(budget=SHORT, spill=spill)


def ramp():
    return torch.arange(COUNT, dtype=torch.float32)


def press():
    """A stretch of a program that pages everything out more than once."""
    for _ in range(2):
        kept = [torch.zeros(COUNT) for _ in range(12)]
        del kept
    evict_beside_exports()


def evict_beside_exports():
    torch.zeros(COUNT)
    _core.page_out_all()


EXPORTS = {
    "numpy": lambda tensor: tensor.numpy(),
    "detach_numpy": lambda tensor: tensor.detach().numpy(),
    "asarray": np.asarray,
    "from_dlpack": np.from_dlpack,
    "view_of_numpy": lambda tensor: tensor.numpy()[:],
    "numpy_of_a_view": lambda tensor: tensor.view(200, 200).numpy().reshape(-1),
    "memoryview": lambda tensor: np.frombuffer(memoryview(tensor.numpy()), dtype=np.float32),
    "frombuffer_of_an_address": lambda tensor: np.ctypeslib.as_array(
        (ctypes.c_float * COUNT).from_address(tensor.data_ptr())
    ),
}


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_array_kept_over_evictions_reads_what_torch_writes(session, export):
    session()
    tensor = ramp()
    array = export(tensor)
    for step in range(1, 4):
        press()
        tensor.add_(1)
        press()
        assert (array == np.arange(COUNT) + step).all()
    assert tensorpager.stats()["page_outs"] > 0


WRITABLE = {name: export for name, export in EXPORTS.items() if export is not np.from_dlpack}


@pytest.mark.parametrize("export", WRITABLE.values(), ids=WRITABLE)
def test_torch_reads_what_an_array_kept_over_evictions_writes(session, export):
    session()
    tensor = ramp()
    array = export(tensor)
    for step in range(1, 4):
        press()
        array += 1
        press()
        assert torch.equal(tensor, ramp() + step)


def test_array_and_tensor_agree_over_a_thousand_evictions(session):
    session()
    tensor, others = ramp(), [ramp() for _ in range(12)]
    array = tensor.numpy()
    step = 0
    while tensorpager.stats()["page_outs"] < 1000:
        (tensor if step % 2 else array).__iadd__(1)
        others[step % 12].mul_(1)
        _core.page_out_all()
        step += 1
        if step % 100 == 0:
            assert (array == np.arange(COUNT) + step).all() and torch.equal(tensor, ramp() + step)
    assert step > 100


def test_array_outlives_its_tensor(session):
    session()
    array = ramp().numpy()
    gc.collect()
    press()
    assert (array == np.arange(COUNT)).all()


def test_tensor_imported_through_dlpack_shares_the_memory_for_as_long_as_it_lives(session):
    session()
    tensor = ramp()
    alias = torch.from_dlpack(tensor)
    other = torch.from_dlpack(np.from_dlpack(tensor).copy())
    for step in range(1, 4):
        press()
        alias.add_(1)
        press()
        assert torch.equal(tensor, other + step)
    del tensor
    gc.collect()
    press()
    assert torch.equal(alias, other + 3)


def test_interrupt_when_an_array_has_just_taken_over_its_pin_unpins_once(session, monkeypatch):
    import weakref

    session()
    finalize = weakref.finalize

    def interrupted(*arguments):
        finalize(*arguments)
        raise KeyboardInterrupt

    tensor = torch.arange(1 << 16)
    monkeypatch.setattr(weakref, "finalize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tensor.numpy()
    gc.collect()
    assert tensorpager.stats()["export_bytes"] == 0
    evict()
    assert tensor[-1] == (1 << 16) - 1  # its block pages as any other
    del tensor
    gc.collect()
    assert tensorpager.stats()["export_bytes"] == 0


def test_array_keeps_its_memory_resident_only_while_it_lives(session):
    session()
    tensor = ramp()
    array = tensor.numpy()
    assert tensorpager.stats()["export_bytes"] == -(-BYTES // 4096) * 4096
    slices = [array[1:], np.asarray(tensor)[::2]]
    del array
    gc.collect()
    assert tensorpager.stats()["export_bytes"] > 0
    slices.clear()
    gc.collect()
    assert tensorpager.stats()["export_bytes"] == 0
    evict()
    assert torch.equal(tensor, ramp())


CAPSULES = {
    "to_numpy": np.from_dlpack,
    "to_torch": torch.from_dlpack,
    "not_used": lambda tensor: tensor.__dlpack__(),
    "not_used_versioned": lambda tensor: tensor.__dlpack__(max_version=(1, 0)),
    "used_by_hand": lambda tensor: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor)),
}


@pytest.mark.parametrize("export", CAPSULES.values(), ids=CAPSULES)
def test_capsule_pins_until_its_consumer_is_done(session, export):
    session()
    tensor = ramp()
    consumer = export(tensor)
    pinned = tensorpager.stats()["export_bytes"]
    assert pinned == -(-BYTES // 4096) * 4096 or export is CAPSULES["used_by_hand"]  # to_dlpack() is torch's own
    press()
    del consumer
    gc.collect()
    assert tensorpager.stats()["export_bytes"] == 0
    evict()
    assert torch.equal(tensor, ramp())


@pytest.mark.parametrize("export", [torch.Tensor.numpy, *CAPSULES.values()], ids=["numpy", *CAPSULES])
def test_export_of_a_dead_tensor_leaves_nothing(session, export):
    session()
    export(ramp())
    gc.collect()
    stats = tensorpager.stats()
    assert (stats["export_bytes"], stats["live_blocks"], stats["records"]) == (0, 0, 0)


@pytest.mark.parametrize("export", [lambda tensor: tensor.numpy(), np.from_dlpack], ids=["numpy", "capsule"])
def test_export_outlives_its_session_and_the_next_one(session, export):
    with session():
        array = export(ramp())
    assert (array == np.arange(COUNT)).all()
    session()
    press()
    assert (array == np.arange(COUNT)).all()
    del array
    gc.collect()
    stats = tensorpager.stats()
    assert (stats["export_bytes"], stats["live_blocks"], stats["records"]) == (0, 0, 0)


def test_more_exports_than_the_budget_are_refused_by_an_error_and_not_a_crash(session):
    session()
    tensors = [ramp() for _ in range(8)]
    arrays = []
    with pytest.raises(MemoryError, match="more than the budget of 1.00 MiB"):
        for tensor in tensors:
            arrays.append(tensor.numpy())
    arrays.clear()
    assert all(torch.equal(tensor, ramp()) for tensor in tensors)


@pytest.mark.stable("under rebinding an address is good while it is leased")
def test_address_stays_and_no_other_tensor_gets_it(session):
    session()
    tensors = [ramp() + value for value in range(12)]
    addresses = [tensor.data_ptr() for tensor in tensors]
    press()
    assert [tensor.data_ptr() for tensor in tensors] == addresses
    assert [tensor.untyped_storage().data_ptr() for tensor in tensors] == addresses
    more = [ramp() for _ in range(12)]
    ranges = sorted((tensor.data_ptr(), tensor.data_ptr() + BYTES) for tensor in tensors + more)
    assert all(end <= begin for (_, end), (begin, _) in zip(ranges, ranges[1:]))


@pytest.mark.stable("it takes the fault handler")
def test_raw_address_is_read_and_written_while_evicted(session):
    session()
    tensor, other = ramp(), ramp()
    evict()
    source = (ctypes.c_float * COUNT).from_address(tensor.data_ptr())
    assert source[COUNT - 1] == COUNT - 1
    evict()
    source[7] = -1
    evict()
    ctypes.memmove(other.data_ptr(), tensor.data_ptr(), BYTES)
    evict()
    assert other[7].item() == tensor[7].item() == -1
    assert tensorpager.stats()["faults"] >= 4


def test_system_calls_take_exported_buffers(session, tmp_path):
    session()
    tensor, other = ramp(), torch.zeros(COUNT)
    data, buffer = tensor.numpy(), other.numpy()
    path = tmp_path / "data"
    press()
    with open(path, "wb", buffering=0) as file:
        assert os.write(file.fileno(), memoryview(data).cast("B")) == BYTES
        capsule = np.from_dlpack(tensor * 1)
        press()
        assert os.write(file.fileno(), memoryview(capsule).cast("B")) == BYTES
    press()
    with open(path, "rb", buffering=0) as file:
        assert file.readinto(buffer) == BYTES
    assert torch.equal(other, tensor)
    buffer.fill(0)
    press()
    with open(path, "rb", buffering=0) as file:
        assert os.readv(file.fileno(), [memoryview(buffer).cast("B")]) == BYTES
    assert torch.equal(other, tensor)


def test_sockets_take_exported_buffers(session):
    session()
    tensor, other = ramp()[:20_000], torch.zeros(20_000)
    data, buffer = tensor.numpy(), memoryview(other.numpy()).cast("B")
    left, right = socket.socketpair()
    with left, right:
        press()
        left.sendall(data)
        press()
        assert right.recv_into(buffer, flags=socket.MSG_WAITALL) == buffer.nbytes
    assert torch.equal(other, tensor)


def test_files_of_arrays_are_written_and_read(session, tmp_path):
    session()
    tensor, other = ramp(), torch.zeros(COUNT)
    evict()
    tensor.numpy().tofile(tmp_path / "raw")
    evict()
    np.save(tmp_path / "array.npy", tensor)
    evict()
    with open(tmp_path / "raw", "rb") as file:
        file.readinto(other.numpy())
    assert torch.equal(other, tensor)
    assert torch.equal(torch.from_numpy(np.load(tmp_path / "array.npy")), tensor)


def test_print_of_an_evicted_tensor_is_as_ever(session, capfd):
    expected = f"{ramp()}\n"
    session()
    tensor = ramp()
    evict()
    print(tensor)
    sys.stdout.flush()
    assert capfd.readouterr().out == expected


@pytest.mark.parametrize("on_disk", [False, True])
def test_storage_is_written_to_a_file_and_set_from_one_while_evicted(session, tmp_path, on_disk):
    session()
    tensor, other = ramp(), torch.zeros(COUNT)
    evict()
    file = open(tmp_path / "storage", "wb+") if on_disk else io.BytesIO()
    tensor.untyped_storage()._write_file(file, on_disk, True, 1)
    file.seek(0)
    assert file.read()[8:] == np.arange(COUNT, dtype=np.float32).tobytes()
    file.seek(0)
    evict()
    other.untyped_storage()._set_from_file(file, 0 if on_disk else None, on_disk, 1)
    assert torch.equal(other, tensor)
