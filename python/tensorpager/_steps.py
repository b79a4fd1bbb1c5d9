"""Says where steps end, for whoever looks for the windows of what is recorded."""

from __future__ import annotations

_hooks: list = []


def install(core) -> None:
    """The steps of torch's optimizers, where windows are looked for."""
    if _hooks or not core.wants_steps():
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    _hooks.append(register_optimizer_step_pre_hook(lambda *_: core.optimizer_begins()))
    _hooks.append(register_optimizer_step_post_hook(lambda *_: core.optimizer_ends()))


def uninstall() -> None:
    while _hooks:
        _hooks.pop().remove()
