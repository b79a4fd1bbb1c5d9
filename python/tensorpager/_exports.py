"""Memory that leaves torch: what a system call is handed must be resident, because the kernel does not fault for us.

The fault handler serves every read and write from user code. A system call on an evicted buffer fails with EFAULT instead, so an array from
`Tensor.numpy()` or `__array__`, and a DLPack capsule, keep their block resident for as long as they live; storage file methods do so
while they run. Some places replace our fault handler or block its signal; it is put back after them. A raw `data_ptr()` needs nothing: the address is stable.
"""

from __future__ import annotations

import functools
import weakref

_undo: list = []


def install(core) -> None:
    """Wraps the exporting methods; `uninstall` brings the originals back."""
    import faulthandler
    import signal

    import torch
    from torch.utils.data._utils import signal_handling

    def pinned_while_alive(export):
        @functools.wraps(export)
        def wrapper(tensor, *args, **kwargs):
            array = export(tensor, *args, **kwargs)
            # An array that shares memory has the tensor as its base, and so has every view of it.
            base = getattr(array, "base", None)
            if isinstance(base, torch.Tensor):
                token = core.pin_export(base.data_ptr())
                if token:
                    weakref.finalize(base, core.unpin_export, token).atexit = False
            return array

        return wrapper

    def pinned_during(method):
        @functools.wraps(method)
        def wrapper(storage, *args, **kwargs):
            token = core.pin_export(storage.data_ptr()) if storage.device.type == "cpu" else 0
            try:
                return method(storage, *args, **kwargs)
            finally:
                core.unpin_export(token)

        return wrapper

    def pinned_record(write_record):
        @functools.wraps(write_record)
        def wrapper(writer, name, data, size):
            is_storage = isinstance(data, torch.UntypedStorage) and data.device.type == "cpu"
            token = core.pin_export(data.data_ptr()) if is_storage else 0
            try:
                return write_record(writer, name, data, size)
            finally:
                core.unpin_export(token)

        return wrapper

    def handler_afterwards(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            result = function(*args, **kwargs)
            core.reinstall_fault_handler()
            return result

        return wrapper

    _replace(torch.Tensor, "numpy", pinned_while_alive)
    _replace(torch.Tensor, "__array__", pinned_while_alive)
    _replace(torch.Tensor, "__dlpack__", lambda export: _dlpack(core, export))
    for name in ("_write_file", "_set_from_file"):
        _replace(torch.UntypedStorage, name, pinned_during)
    _replace(torch._C.PyTorchFileWriter, "write_record", pinned_record)
    _replace(signal_handling, "_set_worker_signal_handlers", handler_afterwards)
    _replace(faulthandler, "enable", handler_afterwards)
    for name in ("signal", "pthread_sigmask"):
        _replace(signal, name, handler_afterwards)


def uninstall() -> None:
    while _undo:
        owner, name, own = _undo.pop()
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def _replace(owner, name: str, make) -> None:
    _undo.append((owner, name, vars(owner).get(name)))  # not what getattr() gives: that may be bound already
    setattr(owner, name, make(getattr(owner, name)))


def _dlpack(core, export):
    """A capsule's consumer holds the memory through the capsule alone, so the block stays resident until it is given back."""

    @functools.wraps(export)
    def wrapper(tensor, *args, **kwargs):
        capsule = export(tensor, *args, **kwargs)
        if tensor.device.type == "cpu":
            core.pin_capsule(capsule)
        return capsule

    return wrapper
