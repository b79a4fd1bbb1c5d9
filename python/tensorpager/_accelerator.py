"""The CUDA device of a run: emulated where `tensorpager run --emulate` asks for it, and watched where its storages are recorded."""

from __future__ import annotations

import os


def is_emulated() -> bool:
    return bool(os.environ.get("TENSORPAGER_EMULATE"))


def is_recorded() -> bool:
    return os.environ.get("TENSORPAGER_TRACE_DEVICE") == "cuda"


def watch(core) -> None:
    """From torch's own initialisation of CUDA on: a program that forks before it must find CUDA untouched."""
    import torch

    torch.cuda._lazy_call(core.watch_device)
