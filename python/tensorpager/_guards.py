"""Raw access under the rebinding binding, where an evicted storage has no memory and a block may come back elsewhere.

Methods that read bytes without an op run with their block pinned. A raw `data_ptr()` cannot know how long it is used: its block stays where it
is until the optimizer step after the next one ends, or for good where no optimizer runs; `tensorpager.pin(tensor)` says it exactly.
`torch.save` and `load` ask for addresses only to tell storages apart, so they get names and nothing is paged in for them.
"""

from __future__ import annotations

import functools
import threading

from tensorpager._guard import Guard
from tensorpager._pins import pin, pinned_during, replace

# Read or write bytes in C++ without an op. The rest of the storage's methods are made of these and of ops.
_STORAGE_METHODS = (
    "__getitem__", "__setitem__", "_byteswap", "_share_fd_cpu_", "_share_filename_cpu_", "fill_", "is_shared", "resize_",
)  # fmt: skip
_TENSOR_METHODS = ("tolist", "is_shared", "share_memory_")

_lock = threading.Lock()
_leases: list[dict[int, int]] = [{}, {}]  # by storage, its pin: those of this window, and those of the window before
_only_names = threading.local()  # .on: addresses serve as names now
_hook = None


def install(core) -> None:
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def leased(data_ptr):
        @functools.wraps(data_ptr)
        def wrapper(thing):
            if thing.device.type != core.paged_device():
                return data_ptr(thing)
            if getattr(_only_names, "on", False):
                return core.name_of_storage(_storage(thing)._cdata) or data_ptr(thing)
            token = pin(core, thing)
            if token:
                key = _storage(thing)._cdata
                with _lock:
                    old = [window.pop(key) for window in _leases if key in window]
                    _leases[0][key] = token
                for pinned in old:
                    core.unpin_export(pinned)
            return data_ptr(thing)

        return wrapper

    def names_only(save):
        @functools.wraps(save)
        def wrapper(*args, **kwargs):
            before = getattr(_only_names, "on", False)
            _only_names.on = True
            try:
                return save(*args, **kwargs)
            finally:
                _only_names.on = before

        return wrapper

    def end_window(*_):
        with _lock:
            over = _leases.pop()
            _leases.insert(0, {})
        for token in over.values():
            core.unpin_export(token)

    for name in _STORAGE_METHODS:
        replace(torch.UntypedStorage, name, lambda method: pinned_during(core, method))
    replace(torch.UntypedStorage, "copy_", lambda method: _copy_pinned(core, method))
    replace(torch.jit, "save", lambda save: _save_pinned(core, save))
    if torch.distributed.is_available():
        _keep_buckets(core, torch, replace)
    for name in _TENSOR_METHODS:
        replace(torch.Tensor, name, lambda method: pinned_during(core, method))
    replace(torch.Tensor, "data_ptr", leased)
    replace(torch.UntypedStorage, "data_ptr", leased)
    for name in ("_save", "_legacy_save", "_load", "_legacy_load"):
        replace(torch.serialization, name, names_only)
    global _hook
    _hook = register_optimizer_step_post_hook(end_window), core


def _keep_buckets(core, torch, replace):
    """DistributedDataParallel asks between ops whether a gradient lies in its bucket, so buckets stay resident for as long as they live,
    and gradients as if their address had been taken."""
    reducer = torch.distributed.Reducer

    def kept(make):
        @functools.wraps(make)
        def wrapper(*args, **kwargs):
            core.keep_allocations(True)
            try:
                return make(*args, **kwargs)
            finally:
                core.keep_allocations(False)

        return wrapper

    def lease_gradient(parameter):
        if parameter.grad is not None and parameter.grad.layout == torch.strided:
            parameter.grad.data_ptr()

    def hooked(make):
        make = kept(make)

        @functools.wraps(make)
        def wrapper(self, parameters, *args, **kwargs):
            make(self, parameters, *args, **kwargs)
            for parameter in parameters:
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(lease_gradient)

        return wrapper

    replace(reducer, "__init__", hooked)
    replace(reducer, "_rebuild_buckets", kept)


def _copy_pinned(core, copy):
    @functools.wraps(copy)
    def wrapper(storage, source, *args, **kwargs):
        tokens = []
        try:
            for thing in (storage, source):
                tokens.append(pin(core, thing))
            return copy(storage, source, *args, **kwargs)
        finally:
            for token in tokens:
                core.unpin_export(token)

    return wrapper


def _save_pinned(core, save):
    """Writes all of the module's tensors from their addresses, so they must fit together."""

    @functools.wraps(save)
    def wrapper(module, *args, **kwargs):
        with Guard((*module.parameters(), *module.buffers())):
            return save(module, *args, **kwargs)

    return wrapper


def uninstall() -> None:
    global _hook
    if _hook is None:
        return
    handle, core = _hook
    _hook = None
    handle.remove()
    for window in _leases:
        for token in window.values():
            core.unpin_export(token)
        window.clear()


def _storage(thing):
    return thing if hasattr(thing, "_share_fd_cpu_") else thing.untyped_storage()
