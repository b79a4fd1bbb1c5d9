"""The CUDA device of a run: emulated where `tensorpager run --emulate` asks for it, and watched where its storages are recorded."""

from __future__ import annotations

import os


def is_emulated() -> bool:
    return bool(os.environ.get("TENSORPAGER_EMULATE"))


def is_recorded() -> bool:
    return os.environ.get("TENSORPAGER_DEVICE") == "cuda"


def is_paged() -> bool:
    """Whether the budget is for the device's memory."""
    return is_recorded() and os.environ.get("TENSORPAGER_BUDGET") not in (None, "", "unlimited")


def when_initialised(call) -> None:
    """Calls it when torch initialises CUDA: a program that forks before must find CUDA untouched."""
    import torch

    torch.cuda._lazy_call(call)


def watch(core) -> None:
    """From torch's own initialisation of CUDA on."""
    when_initialised(core.watch_device)
