"""Threads started from Python are seen from their first op on, not only from their first allocation."""

from __future__ import annotations

import threading

_original = None


def install(core) -> None:
    global _original
    if _original is not None:
        return
    original = _original = threading.Thread._bootstrap_inner

    def _bootstrap_inner(self):
        core.enter_thread()
        original(self)

    threading.Thread._bootstrap_inner = _bootstrap_inner


def uninstall() -> None:
    global _original
    if _original is not None:
        threading.Thread._bootstrap_inner = _original
        _original = None
