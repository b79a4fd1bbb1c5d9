"""Torch's own database of ops: every op gives the right result when all it is given was paged out just before the call.

What an op reads without being seen would be absent then; a read outside an op is served by the fault handler and counted.
"""

import sys
import time
import types
import unittest

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map
from training import digest

import tensorpager
from tensorpager import _core

SAMPLES = 4  # of each op
PADDING = 32 << 10  # bytes; the database's tensors are smaller than what is ever paged out
UNWRITTEN = (
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "new_empty_strided",
    "empty_permuted",
)  # their results mean nothing


def op_database():
    # Its module needs a package that is only for torch's own tests.
    expecttest = types.ModuleType("expecttest")
    expecttest.TestCase, expecttest.assert_expected_inline = unittest.TestCase, None
    sys.modules["expecttest"] = expecttest
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def is_plain(value):
    return type(value) is torch.Tensor and value.layout == torch.strided and value.device.type == "cpu"


def padded(value):
    """The same tensor in a storage that is large enough to be paged out."""
    if not is_plain(value) or value.is_conj() or value.is_neg():
        return value
    elements = value.storage_offset() + sum((n - 1) * s for n, s in zip(value.shape, value.stride())) + 1
    storage = torch.zeros(elements + PADDING // value.element_size(), dtype=value.dtype)
    copy = torch.empty(0, dtype=value.dtype)
    copy.set_(storage.untyped_storage(), value.storage_offset(), value.shape, value.stride())
    return copy.copy_(value) if value.numel() else copy


def results_of(op, sample, before=lambda: None):
    torch.manual_seed(3)
    arguments = tree_map(padded, (sample.input, sample.args, sample.kwargs))
    before()
    result = op(arguments[0], *arguments[1], **arguments[2])
    return [
        (leaf.shape, leaf.dtype, digest(leaf.resolve_conj().resolve_neg()))
        for leaf in tree_leaves(result)
        if is_plain(leaf)
    ]


def dtype_of(op):
    return next((dtype for dtype in (torch.float32, torch.int64, torch.bool) if dtype in op.dtypes), None)


def samples_of(op):
    dtype = dtype_of(op)
    if dtype is None:
        return []
    try:
        return list(op.sample_inputs("cpu", dtype, requires_grad=False))[:SAMPLES]
    except Exception:
        return []  # no samples on this machine: CUDA only, or a library is missing


@pytest.mark.slow
@pytest.mark.forked(seconds=900)
def test_every_op_is_right_with_everything_evicted_before_the_call(spill):
    database = op_database()
    tensorpager.enable(spill=spill)
    wrong, faulting, compared, started = set(), set(), 0, time.monotonic()
    for op in (op for op in database if op.name not in UNWRITTEN):
        for sample in samples_of(op):
            try:
                expected = results_of(op, sample)
                if results_of(op, sample) != expected:
                    continue  # differs by itself
            except Exception:
                continue
            faults = 0

            def evict():
                nonlocal faults
                _core.page_out_all()
                faults = tensorpager.stats()["faults"]

            results = results_of(op, sample, evict)
            compared += 1
            if results != expected:
                wrong.add(op.name)
            if tensorpager.stats()["faults"] != faults:
                faulting.add(op.name)
    stats = tensorpager.stats()
    print(
        f"{compared} samples in {time.monotonic() - started:.0f} s, {stats['page_ins']} page-ins, faults in {sorted(faulting)}"
    )
    assert wrong == set()
    assert faulting == set()
    assert compared > 2000
    assert stats["page_ins"] > compared
