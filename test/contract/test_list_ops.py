"""R6: an optimizer that updates all its tensors in one call needs the room of a few of them, and gives the same bits."""

import pytest
import torch
from torch import nn
from training import digest

import tensorpager

pytestmark = pytest.mark.forked

LAYERS, WIDTH = 12, 256  # weights of 256 KiB: 3 MiB of parameters, as much of gradients, twice that of Adam's state
BUDGET = 4 << 20  # far below parameters + gradients + state


def train(make_optimizer, steps=3, clip=False, scaler=None):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    optimizer = make_optimizer(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(64, WIDTH)).square().mean()
        if scaler is None:
            loss.backward()
        else:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=True)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
    state = [value for entry in optimizer.state.values() for value in entry.values() if torch.is_tensor(value)]
    return digest(*model.parameters(), *state)


OPTIMIZERS = {
    "AdamW, fused": lambda p: torch.optim.AdamW(p, fused=True),
    "AdamW, fused, amsgrad": lambda p: torch.optim.AdamW(p, fused=True, amsgrad=True),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, foreach=True),
    "SGD with momentum, fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "SGD with momentum, foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "Adagrad, fused": lambda p: torch.optim.Adagrad(p, fused=True),
    "RMSprop, foreach": lambda p: torch.optim.RMSprop(p, foreach=True),
}


def paged(spill, **arguments):
    with tensorpager.enable(budget=BUDGET, spill=spill, quiet=True):
        result = train(**arguments)
    stats = tensorpager.stats()
    assert stats["page_outs"] > 0
    assert stats["need_bytes"] > 2 * BUDGET
    assert stats["peak_bytes"] <= BUDGET and stats["over_budget_bytes"] == 0
    return result


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_over_lists_larger_than_the_budget_has_the_same_bits(name, spill):
    assert paged(spill, make_optimizer=OPTIMIZERS[name]) == train(OPTIMIZERS[name])


def test_clipping_by_the_norm_of_all_gradients_has_the_same_bits(spill):
    optimizer = OPTIMIZERS["AdamW, foreach"]
    assert paged(spill, make_optimizer=optimizer, clip=True) == train(optimizer, clip=True)


def test_a_gradient_scaler_has_the_same_bits(spill):
    optimizer = OPTIMIZERS["SGD with momentum, foreach"]
    plain = train(optimizer, scaler=torch.amp.GradScaler("cpu"))
    assert paged(spill, make_optimizer=optimizer, scaler=torch.amp.GradScaler("cpu")) == plain


def test_an_item_that_alone_does_not_fit_is_refused_before_any_is_updated(spill):
    small, large = torch.zeros(WIDTH, WIDTH), torch.zeros(WIDTH, 8 * WIDTH)  # 256 KiB; 2 MiB, of which four do not fit
    with tensorpager.enable(budget=64 << 20, spill=spill, quiet=True):
        parameters = [tensor.clone().requires_grad_() for tensor in (small, large)]
        optimizer = torch.optim.AdamW(parameters, fused=True)
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        before = digest(*parameters)
    with tensorpager.enable(budget=6 << 20, spill=spill, quiet=True):
        with pytest.raises(torch.OutOfMemoryError, match=r"aten::_fused_adamw_.*256, 2048.*budget of 6.00 MiB"):
            optimizer.step()
        assert digest(*parameters) == before
        assert tensorpager.stats()["pins"] == 0


def test_each_part_of_a_list_op_is_an_op(spill):
    tensors = 8  # an item is a parameter and its gradient: 512 KiB
    with tensorpager.enable(budget=8 << 20, spill=spill, quiet=True):  # parts are at most a sixteenth: one item
        parameters, gradients = ([torch.ones(WIDTH, WIDTH) for _ in range(tensors)] for _ in range(2))

        def ops_of_a_step():
            before = tensorpager.stats()["ops"]
            torch._fused_sgd_(
                parameters,
                gradients,
                [],
                weight_decay=0.0,
                momentum=0.0,
                lr=0.5,
                dampening=0.0,
                nesterov=False,
                maximize=False,
                is_first_step=False,
            )
            return tensorpager.stats()["ops"] - before

        assert ops_of_a_step() == tensors
        assert all((parameter == 0.5).all() for parameter in parameters)
