"""Torch's database of ops on the emulated card and on the CPU, for test_emulated_op_database.py. `emulated_op_database.py TYPE [SEED]` prints,
for each op, the digest of its results and gradients, how far they are from the CPU's where they differ, and its error. With a seed the card is
paged: all storages, however small, leave at random.
"""

import itertools
import json
import random
import sys
import types
import unittest
import warnings

import numpy
import torch
from emulated import Emulation
from emulation_models import digest
from torch.utils._pytree import tree_leaves, tree_map

import tensorpager

SAMPLES = 4  # of each op


def op_database():
    # Its module needs a package that is only for torch's own tests.
    expecttest = types.ModuleType("expecttest")
    expecttest.TestCase, expecttest.assert_expected_inline = unittest.TestCase, None
    sys.modules["expecttest"] = expecttest
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def copied_to(device):
    """With the whole storage, so that strides are the same and views see the same bytes."""

    def copy(value):
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        with torch.no_grad():
            storage = value.detach().untyped_storage().clone()
            tensor = torch.empty(0, dtype=value.dtype, device=device)
            bytes_there = torch.empty(len(storage), dtype=torch.uint8).set_(storage).to(device)
            tensor.set_(bytes_there.untyped_storage(), value.storage_offset(), value.shape, value.stride())
            tensor = tensor.conj() if value.is_conj() else tensor
            tensor = torch._neg_view(tensor) if value.is_neg() else tensor
        return tensor.requires_grad_(value.requires_grad)

    return copy


def results_of(op, sample, device):
    torch.manual_seed(7)
    arguments = tree_map(copied_to(device), (sample.input, sample.args, sample.kwargs))
    if "device" in arguments[2]:
        arguments[2]["device"] = device
    results = tree_leaves(op(arguments[0], *arguments[1], **arguments[2]))
    tensors = [leaf for leaf in results if isinstance(leaf, torch.Tensor)]
    wanted = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    outputs = [leaf for leaf in tensors if leaf.requires_grad]
    if outputs and wanted:
        sums = [leaf.abs().sum() if leaf.is_complex() else leaf.sum() for leaf in outputs]
        results += torch.autograd.grad(sums, wanted, allow_unused=True)
    return [plain(leaf) for leaf in results if not isinstance(leaf, torch.Tensor) or leaf.layout == torch.strided]


def plain(leaf):
    return leaf.detach().cpu().resolve_conj().resolve_neg().contiguous() if isinstance(leaf, torch.Tensor) else leaf


def difference(results, others):
    """The largest; None where all bits are equal but for the sign of zeros and the bits of NaNs."""
    largest = None
    for one, other in zip(results, others, strict=True):
        if not isinstance(one, torch.Tensor):
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            return float("inf")
        if digest(one) != digest(other):
            one, other = (torch.view_as_real(leaf.to(torch.complex128)).nan_to_num() for leaf in (one, other))
            if not torch.equal(one, other):
                largest = max(largest or 0.0, float((one - other).abs().max()))
    return largest


def type_of(op, wanted):
    if wanted in op.supported_dtypes("cpu"):
        return wanted
    return torch.int64 if wanted == torch.float32 and torch.int64 in op.supported_dtypes("cpu") else None


def samples_of(op, dtype):
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    gradients = op.supports_autograd and dtype.is_floating_point
    try:
        return list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradients), SAMPLES))
    except Exception:
        return []  # no samples on this machine: a library is missing


def main(wanted, seed=None):
    warnings.filterwarnings("ignore")
    database, emulation = op_database(), Emulation()
    torch.set_num_threads(1)
    if seed:
        tensorpager.enable("256MiB", device="cuda", fuzz=int(seed), on_demand=True, quiet=True)
    found = {"digests": {}, "differ": {}, "errors": {}}
    for op in database:
        name, dtype = name_of(op), type_of(op, wanted)
        if dtype is None:
            continue
        for sample in samples_of(op, dtype):
            try:
                on_cpu = results_of(op, sample, "cpu")
            except Exception:
                continue
            try:
                on_device = results_of(op, sample, "cuda")
            except Exception as error:
                found["errors"][name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                emulation.clear_error()
                break
            tensors = [leaf for leaf in on_device if isinstance(leaf, torch.Tensor)]
            found["digests"][name] = found["digests"].get(name, "") + digest(*tensors)
            distance = difference(on_cpu, on_device)
            if distance is not None:
                found["differ"][name] = max(found["differ"].get(name, 0.0), distance)
    found |= {"report": emulation.report(), "synchronous": emulation.synchronous()}
    print(json.dumps(found | ({"stats": tensorpager.stats()} if seed else {})))


if __name__ == "__main__":
    main(getattr(torch, sys.argv[1]), *sys.argv[2:])
