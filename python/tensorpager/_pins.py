"""Blocks kept resident around code that reads bytes without an op, and the methods that are wrapped for it."""

from __future__ import annotations

import functools

_undo: list = []


def replace(owner, name: str, make) -> None:
    """owner.name becomes make(owner.name), until `restore_all`."""
    _undo.append((owner, name, vars(owner).get(name)))  # not what getattr() gives: that may be bound already
    setattr(owner, name, make(getattr(owner, name)))


def restore_all() -> None:
    """Brings the originals of all that was replaced back."""
    while _undo:
        owner, name, own = _undo.pop()
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def pin(core, thing) -> int:
    """Keeps the block of a tensor or storage resident until `core.unpin_export(token)`; 0 where there is no block of ours."""
    if thing.device.type != core.paged_device():
        return 0
    try:
        storage = thing if hasattr(thing, "_share_fd_cpu_") else thing.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return 0  # sparse, opaque and wrapping tensors have none
    return core.pin_storage(storage._cdata)


def unpin(core, pins: list[int]) -> None:
    """Each once."""
    while pins:
        core.unpin_export(pins.pop())


def pinned_during(core, method):
    @functools.wraps(method)
    def wrapper(thing, *args, **kwargs):
        token = pin(core, thing)
        try:
            return method(thing, *args, **kwargs)
        finally:
            core.unpin_export(token)

    return wrapper
