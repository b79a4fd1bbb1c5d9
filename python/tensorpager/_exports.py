"""Memory that leaves torch: what a system call or an importer is handed must be resident and stay where it is.

Under the stable binding the fault handler serves every read and write from user code, but a system call on an evicted buffer fails with
EFAULT. So an array from `Tensor.numpy()` or `__array__`, and a DLPack capsule, keep their block resident for as long as they live; storage file
methods do so while they run. Some places replace our fault handler or block its signal; it is put back after them. A raw `data_ptr()` needs nothing there: the
address is stable. What the rebinding binding needs on top is in _guards.
"""

from __future__ import annotations

import functools
import weakref

from tensorpager import _guards
from tensorpager._pins import pin, pinned_during, replace, restore_all, unpin


def install(core) -> None:
    """Wraps the exporting methods; `uninstall` brings the originals back."""
    import faulthandler
    import signal

    import torch
    from torch.utils.data._utils import signal_handling

    def pinned_while_alive(export):
        @functools.wraps(export)
        def wrapper(tensor, *args, **kwargs):
            pins = [pin(core, tensor)]  # for who takes it first: an interrupt may come when two could
            try:
                array = export(tensor, *args, **kwargs)
                # An array that shares memory has the tensor as its base, and so has every view of it.
                base = getattr(array, "base", None)
                if pins[0] and isinstance(base, torch.Tensor):
                    weakref.finalize(base, unpin, core, pins).atexit = False
                    pins = []
                return array
            finally:
                unpin(core, pins)

        return wrapper

    def pinned_record(write_record):
        @functools.wraps(write_record)
        def wrapper(writer, name, data, size):
            token = pin(core, data) if isinstance(data, torch.UntypedStorage) else 0
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

    replace(torch.Tensor, "numpy", pinned_while_alive)
    replace(torch.Tensor, "__array__", pinned_while_alive)
    replace(torch.Tensor, "__dlpack__", lambda export: _dlpack(core, export))
    for name in ("_write_file", "_set_from_file"):
        replace(torch.UntypedStorage, name, lambda method: pinned_during(core, method))
    replace(torch._C.PyTorchFileWriter, "write_record", pinned_record)
    replace(signal_handling, "_set_worker_signal_handlers", handler_afterwards)
    replace(faulthandler, "enable", handler_afterwards)
    for name in ("signal", "pthread_sigmask"):
        replace(signal, name, handler_afterwards)
    if core.rebinds():
        _guards.install(core)


def uninstall() -> None:
    _guards.uninstall()
    restore_all()


def _dlpack(core, export):
    """A capsule's consumer holds the memory through the capsule alone, so the block stays resident until it is given back."""

    @functools.wraps(export)
    def wrapper(tensor, *args, **kwargs):
        token = pin(core, tensor)
        try:
            capsule = export(tensor, *args, **kwargs)
            if token:
                core.pin_capsule(capsule)
            return capsule
        finally:
            core.unpin_export(token)

    return wrapper
