"""`pin(tensor)`: for code that holds a tensor's address longer than a call, such as a library's buffer or a loop over `data_ptr()`."""

from __future__ import annotations

import sys
import weakref
from types import TracebackType

from tensorpager import _extension
from tensorpager._pins import unpin


class Guard:
    """Keeps tensors alive, resident, writable and where they are, until `release()`, the end of its `with` block, or its own end."""

    def __init__(self, tensors: tuple) -> None:
        core = _extension.load()
        pins: list[int] = []
        self._release = weakref.finalize(self, _unpin, core, pins, tensors)
        self._release.atexit = False
        if not core.active():
            return
        try:
            for tensor in tensors:
                token = core.pin_storage(_storage_of(tensor)._cdata)
                if token:
                    pins.append(token)
        except (core.OverBudget, core.IoError) as error:
            self.release()
            raise sys.modules["torch"].OutOfMemoryError(f"Tensorpager: pin(): {error}") from None
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Lets them be paged out again; calling it twice is harmless."""
        self._release()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


def pin(*tensors) -> Guard:
    """Keeps these tensors in memory and at their addresses for as long as the guard that it returns lives.

    Without a session, and for memory that is not paged, it only keeps the tensors alive. Raises ``torch.OutOfMemoryError`` where they do
    not fit beside what cannot be paged out, and ValueError for a tensor that has no storage: pin a sparse one's parts instead.
    """
    return Guard(tensors)


def _storage_of(tensor):
    try:
        return tensor if hasattr(tensor, "_share_fd_cpu_") else tensor.untyped_storage()
    except (AttributeError, RuntimeError, NotImplementedError):
        raise ValueError(f"pin(): {type(tensor).__name__} has no storage; pin the tensors that it is made of") from None


def _unpin(core, pins: list[int], tensors: tuple) -> None:  # the tensors live until here
    unpin(core, pins)
