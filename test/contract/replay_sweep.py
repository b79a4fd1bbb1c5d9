"""Torch's database of ops under `--verify-replay`, for test_replay.py: each op is called, also in place, and its backward pass is run."""

import time

import torch
from test_op_database import op_database
from torch.utils._pytree import tree_leaves, tree_map

import tensorpager


def channels_last(value):
    """The same images in the other memory format."""
    if type(value) is not torch.Tensor or value.dim() != 4 or value.layout != torch.strided:
        return value
    other = value.detach().contiguous(memory_format=torch.channels_last)
    return other.requires_grad_(value.requires_grad)


def dtype_of(op, dtype):
    """Ops without this floating type are called with another in the sweep of float32, and not at all in others."""
    others = (torch.int64, torch.bool, torch.complex64) if dtype == torch.float32 else ()
    return next((one for one in (dtype, *others) if one in op.dtypes), None)


def samples_of(op, dtype, count, requires_grad):
    try:
        for sample, _ in zip(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), range(count)):
            yield sample
    except Exception:
        return  # no samples on this machine: CUDA only, or a library is missing


def call(function, sample):
    result = function(sample.input, *sample.args, **sample.kwargs)
    differentiable = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    torch.autograd.backward(differentiable, [torch.ones_like(leaf) for leaf in differentiable])


def sweep(samples, dtype=torch.float32, autocast=False, in_place=False, change=lambda value: value):
    """The statistics of a session in which `samples` calls of each op were verified. `in_place`: without gradients, and with the variants
    that write their argument.
    """
    started, calls = time.monotonic(), 0
    with tensorpager.enable(verify_replay=True, quiet=True):
        for op in op_database():
            kind = dtype_of(op, dtype)
            if kind is None:
                continue
            gradients = not in_place and op.supports_autograd and (kind.is_floating_point or kind.is_complex)
            functions = [op.op, op.inplace_variant] if in_place and op.inplace_variant else [op.op]
            for sample in samples_of(op, kind, samples, gradients):
                sample.input, sample.args, sample.kwargs = tree_map(change, (sample.input, sample.args, sample.kwargs))
                for function in functions:
                    try:
                        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                            call(function, sample)
                        calls += 1
                    except Exception:
                        continue  # not this type, or no backward pass; also without us
        stats = tensorpager.stats()
    print(f"{calls} calls, {stats['replayed_calls']} replayed, {time.monotonic() - started:.0f} s")
    return stats
