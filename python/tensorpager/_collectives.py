"""What a collective kept is let go when the program has waited for it, and not only at the next op: `Work.wait()` is none."""

from __future__ import annotations

import functools

_original = None


def install(core) -> None:
    import torch.distributed

    global _original
    if _original is not None or not torch.distributed.is_available():
        return
    work = torch.distributed.Work
    wait = _original = work.wait

    @functools.wraps(wait)
    def wrapper(self, *args, **kwargs):
        try:
            return wait(self, *args, **kwargs)
        finally:
            core.release_collectives()

    work.wait = wrapper


def uninstall() -> None:
    global _original
    if _original is not None:
        import torch.distributed

        torch.distributed.Work.wait = _original
        _original = None
