"""C++ extensions that read addresses: through the dispatcher their tensors are pinned; past it each access is served, by the stable binding.

Slow: a compiler runs.
"""

import functools
import os
import sysconfig
from pathlib import Path

import bits
import forked
import pytest
import torch
from torch.utils import cpp_extension
from training import SHORT, evict

import tensorpager
from tensorpager import _core

pytestmark = [pytest.mark.slow, pytest.mark.forked(seconds=240)]

HERE = Path(__file__).parent
SIDE = 160  # of a float matrix of 100 KiB
stable_only = pytest.mark.skipif(not bits.STABLE, reason="only the stable binding serves accesses past the dispatcher")


def load_from(folder):
    headers = [sysconfig.get_path("include"), str(HERE.parents[1] / ".deps/python_headers")]
    source = str(HERE / "cpp_ops.cpp")
    return cpp_extension.load("cpp_ops", [source], ["-O1"], extra_include_paths=headers, build_directory=str(folder))


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Loads the extension, which has been compiled in another fork."""
    folder = tmp_path_factory.mktemp("cpp_ops")
    os.environ["MAX_JOBS"] = "1"
    load = functools.partial(load_from, folder)
    forked.run(load, seconds=400)
    return load


def matrix():
    return torch.randn(SIDE, SIDE)


def test_dispatched_op_has_the_same_bits_under_pressure(load, spill):
    load()
    ops = torch.ops.contract_cpp

    def piece(evict):
        x, y = matrix(), matrix().requires_grad_()
        evict()
        result = ops.blur(x)
        evict()
        ops.add_into(result, ops.blur(x.T))
        evict()
        squares = ops.square(y)
        evict()
        squares.sum().backward()
        evict()
        return x, result, squares, y.grad, ops.composite(x)

    bits.check(piece, spill)


def test_dispatched_op_that_does_not_fit_is_refused_by_name(load, spill):
    load()
    tensorpager.enable(budget=SHORT, spill=spill)
    x = torch.ones(3 * SIDE, SIDE)  # 300 KiB, of which a blur needs five
    with pytest.raises(torch.OutOfMemoryError, match=r"Tensorpager: contract_cpp::blur\(Float\[480, 160\]\)"):
        torch.ops.contract_cpp.blur(x)
    assert tensorpager.stats()["pins"] == 0
    assert torch.ops.contract_cpp.blur(x[:SIDE].clone()).allclose(torch.ones(SIDE, SIDE))


@stable_only
def test_function_past_the_dispatcher_has_the_same_bits_under_pressure(load, spill):
    module = load()

    def piece(evict):
        x = matrix()
        evict()
        sums = [module.sum_of(x)]
        evict()
        sums.append(module.sum_of_in_parallel(x))
        evict()
        module.double_in_place(x)
        evict()
        return sums, x

    bits.check(piece, spill, outside_ops=True)


@stable_only
def test_kernel_past_the_dispatcher_keeps_its_temporaries_valid(load, spill):
    module = load()
    x = matrix()
    expected = module.blur(x)
    tensorpager.enable(budget=SHORT, spill=spill, fuzz=1)
    x = x.clone()
    for _ in range(5):
        evict()
        assert torch.equal(module.blur(x), expected)
    assert tensorpager.stats()["over_budget_bytes"] == 0


@stable_only
def test_threads_of_a_parallel_region_that_fault_at_once_see_the_right_bytes(load, spill):
    os.environ["OMP_NUM_THREADS"] = "2"
    module = load()
    torch.set_num_threads(2)
    tensorpager.enable(budget=SHORT, spill=spill)
    tensors = [torch.full((SIDE, SIDE), float(value)) for value in range(20)]
    for round_ in range(5):
        for value, tensor in enumerate(tensors):
            if round_ % 2:
                _core.page_out_all()
            assert module.sum_of_in_parallel(tensor) == SIDE * SIDE * value * 2**round_
            evict()
            module.double_in_place(tensor)
    assert [tensor.mean().item() for tensor in tensors] == [value * 32.0 for value in range(20)]
    stats = tensorpager.stats()
    assert stats["faults"] > 100 and stats["over_budget_bytes"] == 0
