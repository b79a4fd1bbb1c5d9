"""Reads the variables that `tensorpager run` sets."""

import os


def is_on(name: str) -> bool:
    """Whether a switch is on: what base/options.cpp takes for off is off here, too."""
    return os.environ.get(name, "") not in ("", "0", "false", "no", "off")
