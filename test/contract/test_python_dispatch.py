"""Ops that run inside `__torch_dispatch__`, of tensor subclasses and of modes: torch hides dispatch keys there, and ours must stay."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from training import SHORT, digest, evict, make_model, train

import tensorpager

pytestmark = pytest.mark.forked


class Wrapper(torch.Tensor):
    """Holds a tensor that no op sees as an argument, as DTensor does."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=False)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        unwrapped = [arg.inner if isinstance(arg, Wrapper) else arg for arg in args]
        return Wrapper(function(*unwrapped, **(kwargs or {})))


class Forwarding(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_inner_tensors_of_a_subclass_are_arguments_of_ops_and_not_served_by_faults(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensor = Wrapper(torch.arange(40_000.0))
    for _ in range(3):
        evict()
        tensor = tensor * 2 + 1
    assert torch.equal(tensor.inner, torch.arange(40_000.0) * 8 + 7)
    stats = tensorpager.stats()
    assert stats["page_ins"] >= 3 and stats["faults"] + stats["write_faults"] == 0


def test_op_of_a_subclass_that_does_not_fit_is_refused_before_it_runs(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    tensor = Wrapper(torch.ones(200_000))
    evict()
    with pytest.raises(torch.OutOfMemoryError, match="Tensorpager: aten::exp"):
        tensor.exp()
    assert tensor.inner.sum() == 200_000
    assert tensorpager.stats()["over_budget_bytes"] == 0


def test_op_whose_dispatch_makes_more_than_the_budget_does_not_pin_it_all(spill):
    class Thorough(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            steps = [torch.full((40_000,), float(step)) for step in range(20)]  # 3 MiB
            return sum(step.sum() for step in steps)

    tensorpager.enable(budget=SHORT, spill=spill)
    assert torch.neg(Thorough(torch.ones(1))) == 40_000 * sum(range(20))


def test_training_under_a_mode_has_the_same_bits(spill):
    def run():
        model = make_model()
        with Forwarding():
            losses = train(model)
        return losses, digest(*model.parameters())

    expected = run()
    tensorpager.enable(budget=SHORT, spill=spill)
    assert run() == expected
    stats = tensorpager.stats()
    assert stats["page_outs"] > 0 and stats["faults"] == 0 and stats["over_budget_bytes"] == 0


def test_key_is_hidden_again_after_a_session(spill):
    seen = []

    class Looking(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(torch._C._dispatch_tls_is_dispatch_key_excluded("TESTING_ONLY_GenericMode"))
            return function(*args, **(kwargs or {}))

    with Looking():
        torch.ones(1)
    with tensorpager.enable(spill=spill), Looking():
        torch.ones(1)
    with Looking():
        torch.ones(1)
    assert seen == [True, False, True]


def test_higher_order_operators_choose_their_kernel_as_without_a_session(spill):
    from torch.nn.attention.flex_attention import flex_attention

    def run():
        generator = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(1, 2, 64, 64, generator=generator) for _ in range(3))
        attended = flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score - (i - j).abs() / 8)
        chosen = torch.cond(attended.sum() > 0, torch.sin, torch.cos, (attended,))
        return digest(attended, chosen)

    expected = run()
    torch._dynamo.reset()
    tensorpager.enable(budget=SHORT, spill=spill, fuzz=1)
    assert run() == expected
    assert tensorpager.stats()["page_outs"] > 0
