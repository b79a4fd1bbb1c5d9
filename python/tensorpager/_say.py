"""Lines for who runs the program."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """A line on stderr in one write, as other processes write there too: of an unbuffered Python's `print` it would be two."""
    if sys.stderr is not None:
        sys.stderr.write(f"tensorpager: {text}\n")
