"""The compiled half of this package."""

from __future__ import annotations

import sys

from tensorpager import _build_info


class Mismatch(ImportError):
    """This build was made for another Python or another torch."""


def load():
    """The extension, once it is sure that it fits: loading it against another torch would crash or corrupt."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if python != _build_info.PYTHON:
        raise Mismatch(
            f"built for Python {_build_info.PYTHON}, this is Python {python}; run `make build` or `pip install .` with this Python"
        )
    import torch

    if _minor(torch.__version__) != _minor(_build_info.TORCH):
        raise Mismatch(
            f"built for torch {_build_info.TORCH}, this is torch {torch.__version__};"
            " run `make build` or `pip install .` with this torch"
        )
    from tensorpager import _core as core

    return core


def _minor(version: str) -> list[str]:
    """Patch releases of torch, and its builds with and without CUDA, share the layouts that the extension is compiled with."""
    return version.split(".")[:2]
