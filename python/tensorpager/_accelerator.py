"""The CUDA device of a run: emulated where `tensorpager run --emulate` asks for it, and watched where its storages are recorded."""

from __future__ import annotations

import os
import time

from tensorpager._variables import is_on

_ENGINE_SECONDS = 0.05


def is_emulated() -> bool:
    return bool(os.environ.get("TENSORPAGER_EMULATE"))


def is_recorded() -> bool:
    return _budget().startswith("cuda=") or (os.environ.get("TENSORPAGER_DEVICE") == "cuda" and "=" not in _budget())


def is_paged() -> bool:
    """Whether the budget is for the device's memory. A dry run holds none: it only does the ops of a run with that budget."""
    return not is_on("TENSORPAGER_DRY") and is_recorded() and _budget().removeprefix("cuda=") not in ("", "unlimited")


def _budget() -> str:
    return os.environ.get("TENSORPAGER_BUDGET", "")


def is_used() -> bool:
    """Whether the program has initialised CUDA."""
    import torch

    return torch.cuda.is_initialized()


def let_engine_finish() -> None:
    """At the end of a process. Threads of torch's autograd engine free what the last backward pass has held a little after it returned, for
    which they need the interpreter; Python up to 3.13 aborts the process if they ask for it once it is gone.
    """
    if is_used():
        time.sleep(_ENGINE_SECONDS)


def when_initialised(call) -> None:
    """Calls it when torch initialises CUDA: a program that forks before must find CUDA untouched."""
    import torch

    torch.cuda._lazy_call(call)


def watch(core) -> None:
    """From torch's own initialisation of CUDA on."""
    when_initialised(core.watch_device)
