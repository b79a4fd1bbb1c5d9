"""Ends a program that has shown what was asked for, as if it had called `sys.exit()`: in a dry run once a step has repeated."""

from __future__ import annotations

import os

_MOST_TRIES = 3
_tries = 0


def install(core, finish) -> None:
    """`finish()` is what this process does at its end."""
    core.on_end_of_program(lambda: end_program(finish))


def end_program(finish) -> None:
    """On a thread of the program, between two of its lines. One that catches SystemExit is ended the hard way after a few."""
    global _tries
    _tries += 1
    if _tries < _MOST_TRIES:
        raise SystemExit(0)
    finish()
    os._exit(0)
