"""Temporaries inside ops: a C++ kernel's stay, because it holds raw pointers to them; a Python kernel's can be paged out."""

import pytest
import torch
from training import SHORT, evict

import tensorpager

pytestmark = pytest.mark.forked

ROWS, COLUMNS = 128, 256  # float32: an eighth of the budget
COUNT = 20  # temporaries that are alive at once: two and a half budgets


def keep_many(x):
    """Keeps COUNT temporaries, each in use at the end: the sum of x + 0, x + 1, ..."""
    kept = [x + step for step in range(COUNT)]
    total = torch.zeros_like(x)
    for temporary in kept:
        total += temporary
    return total


@torch.library.custom_op("contract::keep_many", mutates_args=())
def custom_op(x: torch.Tensor) -> torch.Tensor:
    return keep_many(x)


custom_op.register_autograd(lambda context, gradient: keep_many(gradient) * 0 + gradient * COUNT)

library = torch.library.Library("contract_library", "DEF")
library.define("keep_many(Tensor x) -> Tensor")
library.impl("keep_many", keep_many, "CPU")
library.define("nested(Tensor x) -> Tensor")
library.impl("nested", lambda x: torch.ops.contract_library.keep_many(x) + custom_op(x), "CompositeExplicitAutograd")


class Function(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return keep_many(x)

    @staticmethod
    def backward(context, gradient):
        return keep_many(gradient)


WAYS = {
    "custom_op": custom_op,
    "library": torch.ops.contract_library.keep_many,
    "nested": torch.ops.contract_library.nested,
    "autograd_function": lambda x: Function.apply(x.requires_grad_()).detach(),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_python_kernel_with_more_temporaries_than_the_budget_holds_runs(spill, way):
    expected = way(torch.ones(ROWS, COLUMNS))
    tensorpager.enable(budget=SHORT, spill=spill)
    x = torch.ones(ROWS, COLUMNS)
    evict()
    assert torch.equal(way(x), expected)
    stats = tensorpager.stats()
    assert stats["need_bytes"] > 2 * SHORT >= 2 * stats["peak_bytes"]
    assert (stats["over_budget_bytes"], stats["pins"]) == (0, 0)


def test_backward_of_a_python_kernel_is_paged_as_well(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    x = torch.ones(ROWS, COLUMNS, requires_grad=True)
    custom_op(x).sum().backward()
    assert x.grad.min() == x.grad.max() == COUNT
    assert tensorpager.stats()["over_budget_bytes"] == 0


def test_python_kernel_that_does_not_fit_raises_torchs_error_and_leaves_no_pin(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    with pytest.raises(torch.OutOfMemoryError, match="Tensorpager: aten::add"):
        custom_op(torch.ones(6 * ROWS, COLUMNS))
    assert tensorpager.stats()["pins"] == 0
    assert custom_op(torch.ones(ROWS, COLUMNS))[0, 0] == COUNT + sum(range(COUNT))


def svd_floor(spill):
    """Bytes that a singular value decomposition of 256 x 256 requires: its kernel copies the matrix and keeps workspaces."""
    with tensorpager.enable(spill=spill):
        matrix = torch.eye(256) + 0.1
        evict()
        assert tensorpager.stats()["floor_bytes"] < 3 * matrix.nbytes
        torch.linalg.svd(matrix)
    return tensorpager.stats()["floor_bytes"]


def test_floor_counts_the_temporaries_of_a_cpp_kernel(spill):
    assert svd_floor(spill) >= 4 * (256 << 10)


@pytest.mark.stable("one arena cannot be packed that tightly")
def test_cpp_kernel_runs_in_exactly_its_floor(spill):
    tensorpager.enable(budget=svd_floor(spill), spill=spill)
    matrix = torch.eye(256) + 0.1
    others = [torch.ones(64, 256) for _ in range(20)]
    u, s, v = torch.linalg.svd(matrix)
    tensorpager.disable()  # the comparison requires more than the floor
    assert torch.allclose(u * s @ v, matrix, atol=1e-4)
    assert all(other.min() == 1 for other in others)
    assert tensorpager.stats()["over_budget_bytes"] == 0


def test_cpp_kernel_below_its_floor_is_refused_and_leaves_no_pin(spill):
    tensorpager.enable(budget=svd_floor(spill) - (64 << 10), spill=spill)
    matrix = torch.eye(256) + 0.1
    with pytest.raises(torch.OutOfMemoryError, match="Tensorpager: aten::.* more than the budget of"):
        torch.linalg.svd(matrix)
    assert tensorpager.stats()["pins"] == 0
    assert (matrix - 0.1).sum() > 0


def test_refused_temporary_names_the_op_of_the_program(spill):
    tensorpager.enable(budget=svd_floor(spill) - (64 << 10), spill=spill)
    matrix = torch.eye(256) + 0.1
    with pytest.raises(torch.OutOfMemoryError, match=r"Tensorpager: aten::_linalg_svd\(Float\[256, 256\]\)"):
        torch.linalg.svd(matrix)
