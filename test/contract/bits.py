"""A piece of a program, run without a session and then under four kinds of pressure: it must give the same bits in all.

A piece is a function of one argument: `evict`, which it calls wherever a program may be interrupted by pressure. Without a session that does
nothing. Its result is any nesting of tensors, modules, optimizers, bytes and plain values.
"""

import functools
import gc
import os

import torch
from launch import STABLE
from torch import nn
from training import digest

import tensorpager
from tensorpager import _core

# Above the floor: alignment, and more small tensors; in one arena also what is lost between blocks.
MARGIN = 1.1 if STABLE else 1.4
FUZZ_EVICTIONS = 8  # at each op, of some ten blocks: most of what the op does not need


def bits(value):
    """The same for two values only if they are the same to the last bit."""
    if isinstance(value, nn.Module):
        return bits(dict(value.named_parameters()) | dict(value.named_buffers()))
    if isinstance(value, torch.optim.Optimizer):
        return bits(value.state_dict())
    if isinstance(value, dict):
        return {str(key): bits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    if isinstance(value, torch.Tensor):
        return _bits_of_tensor(value.detach())
    return value.hex() if isinstance(value, (float, bytes)) else repr(value)


def _bits_of_tensor(tensor):
    if tensor.is_quantized:
        return [bits(tensor.int_repr()), tensor.q_scale().hex(), tensor.q_zero_point()]
    if tensor.is_nested:
        return bits([tensor._nested_tensor_size(), tensor.to_padded_tensor(0.0)])
    if tensor.layout == torch.sparse_coo:
        return [bits(tensor._indices()), bits(tensor._values()), tuple(tensor.shape)]
    if tensor.layout == torch.sparse_csr:
        return bits([tensor.crow_indices(), tensor.col_indices(), tensor.values()])
    return [str(tensor.dtype), tuple(tensor.shape), digest(tensor.resolve_conj().resolve_neg())]


def check(piece, spill, outside_ops=False):
    """Fails if the piece gives other bits under pressure than without a session, or if a session is out of balance after it.

    Unless it touches tensors outside ops, no access may have needed the fault handler: under the stable binding this shows what would be
    wrong under another.
    """
    check_session = functools.partial(_check_session, piece, _run(piece, lambda: None), spill, outside_ops)
    stats = check_session("everything evicted wherever the piece says")
    # The slabs that a session leaves are charged to the next, also while it is in the op that needs most.
    budget = int(MARGIN * stats["floor_bytes"]) + stats["slab_bytes"]
    check_session("the least budget", budget=budget)
    os.environ["TENSORPAGER_FUZZ_EVICTIONS"] = str(FUZZ_EVICTIONS)
    check_session("fuzz", fuzz=1)
    check_session("fuzz in the least budget", budget=budget, fuzz=2)


def _run(piece, evict):
    torch.manual_seed(0)
    result = bits(piece(evict))
    gc.collect()
    return result


def _check_session(piece, expected, spill, outside_ops, kind, budget="unlimited", fuzz=None):
    with tensorpager.enable(budget=budget, spill=spill, fuzz=fuzz, quiet=True):
        result = _run(piece, _core.page_out_all)
        stats = tensorpager.stats()
    assert result == expected, kind
    if STABLE or not outside_ops:  # under rebinding what is accessed outside ops stays resident
        assert stats["page_outs"] > 0 and stats["page_ins"] > 0, kind
    assert stats["pins"] == stats["over_budget_bytes"] == 0, kind
    assert stats["peak_bytes"] <= stats["budget_bytes"], kind
    if STABLE and not outside_ops:
        assert stats["faults"] == stats["write_faults"] == 0, kind
    return stats
