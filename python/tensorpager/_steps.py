"""Tells the recording where steps end, and what an optimizer's storages are for."""

from __future__ import annotations

import os

_NAMED_STEPS = 2  # an optimizer makes its state in its first

_hooks: list = []
_named: dict[int, int] = {}  # steps by optimizer


def install(core) -> None:
    """The steps of torch's optimizers, where windows are looked for."""
    if _hooks or not core.wants_steps():
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    names = bool(os.environ.get("TENSORPAGER_TRACE"))

    def ends(optimizer, *_):
        if names and _named.get(id(optimizer), 0) < _NAMED_STEPS:
            _named[id(optimizer)] = _named.get(id(optimizer), 0) + 1
            _name(core, optimizer)
        core.optimizer_ends()

    _hooks.append(register_optimizer_step_pre_hook(lambda *_: core.optimizer_begins()))
    _hooks.append(register_optimizer_step_post_hook(ends))


def uninstall() -> None:
    _named.clear()
    while _hooks:
        _hooks.pop().remove()


def _name(core, optimizer) -> None:
    import torch

    def name(tensor, kind):
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            return
        try:
            core.name_storage(tensor.untyped_storage()._cdata, kind)
        except (RuntimeError, NotImplementedError):
            return  # functional, fake and wrapping tensors have none

    for state in optimizer.state.values():
        for value in state.values() if isinstance(state, dict) else ():
            name(value, "optimizer")
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name(parameter, "parameter")
            name(parameter.grad, "gradient")
