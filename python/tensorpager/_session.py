"""A session in this process: what `enable()`, `stats()` and `disable()` do."""

from __future__ import annotations

import gc
import os
import sys
from types import TracebackType

from tensorpager import _build_info, _collectives, _compiled, _exports, _higher_order, _steps, _threads
from tensorpager._say import say

_started_with_foreign_bytes = 0


class Mismatch(ImportError):
    """This build was made for another Python or another torch."""


def _core():
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


class Session:
    """What `enable()` returns; as a context manager it disables at the end of the block."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        disable()


def enable(
    budget: int | str | None = None,
    spill: str | None = None,
    fuzz: int | None = None,
    binding: str | None = None,
    *,
    plan: str | None = None,
    plan_cache: str | None = None,
    quiet: bool | None = None,
) -> Session:
    """Charges and pages what this process allocates from now on, on the CPU.

    budget: bytes, or a size such as ``"2GiB"``, ``"500MB"``, ``"25%"`` (of RAM; under torchrun divided by the ranks on this machine),
        ``"unlimited"``. Default: TENSORPAGER_BUDGET.
    spill: a directory for paged-out bytes, or ``"ram"``. Default: TENSORPAGER_SPILL, else the temporary directory.
    fuzz: seed of random evictions at every op, for testing.
    binding: ``"stable"``: a tensor keeps its address; ``"rebinding"``: one arena of exactly the budget, as on a GPU. Default:
        TENSORPAGER_BINDING, else stable. One process keeps to one binding.
    plan: a plan file to follow from the first op on, with its trace beside it, ``step.trace`` for ``step.plan``; several, with one boundary
        table, are separated by colons. Where no budget limits, theirs does. Default: TENSORPAGER_PLAN, else plans are made while the program runs.
    plan_cache: a directory in which the plans that are made are kept for later runs; what an earlier run made there for the same windows and
        budget is not planned anew. Default: TENSORPAGER_PLAN_CACHE, else none.
    quiet: True keeps it from saying, in a line on standard error each, how many bytes of tensors were made before and are therefore
        outside the budget, and where a plan comes in force. Default: TENSORPAGER_QUIET.

    Raises ValueError for a size that is none, a plan that is not right for its trace or for a larger budget, or when a session is active, OSError for a spill directory that cannot be used, ImportError
    where this build was made for another Python or torch. An op that does not fit raises ``torch.OutOfMemoryError``.
    """
    core = _core()
    options = {
        "BUDGET": budget,
        "SPILL": spill,
        "FUZZ": fuzz,
        "BINDING": binding,
        "PLAN": plan,
        "PLAN_CACHE": plan_cache,
        "QUIET": None if quiet is None else int(quiet),
    }
    before = _tensor_bytes()
    core.enable({f"TENSORPAGER_{name}": str(value) for name, value in options.items() if value is not None})
    global _started_with_foreign_bytes
    _started_with_foreign_bytes = before
    _install(core)
    if quiet is None:
        quiet = os.environ.get("TENSORPAGER_QUIET", "0") not in ("", "0")
    if before and not quiet:
        say(f"{core.format_bytes(before)} of tensors were made before enable() and stay outside the budget")
    return Session()


def adopt() -> bool:
    """Where the process, a C++ program with a Python inside, has a session already: adds Python's part to it. False where it has none."""
    core = _core()
    if core.active():
        _install(core)
    return core.active()


def _install(core) -> None:
    _collectives.install(core)
    _compiled.install(core)
    _exports.install(core)
    _higher_order.install()
    _steps.install(core)
    _threads.install(core)


def disable() -> None:
    """Pages everything in and lifts the budget; tensors live on. `stats()` keeps what was counted. Does nothing while not enabled.

    Raises OSError if bytes cannot be read back.
    """
    core = _core()
    if core.active():
        core.disable()
        _threads.uninstall()
        _steps.uninstall()
        _exports.uninstall()
        _collectives.uninstall()


def mark_step() -> None:
    """Says that a step of the program ends here, where no optimizer of torch's says it: plans and traces are made of what repeats."""
    core = _core()
    if core.active():
        core.step_ends()


def stop_recording() -> None:
    """In a process that writes no trace: others of its run do."""
    _core().stop_recording()


def write_trace(path: str) -> str:
    """What was recorded, to a file; returns what it is, in one line."""
    return _core().write_trace(path)


def stats() -> dict:
    """What the session counted: one flat dictionary, with the unit in each name (see docs/formats.md). After `disable()`, as it was then."""
    report = _core().report()
    report["foreign_before_bytes"] = _started_with_foreign_bytes
    return report


def _tensor_bytes() -> int:
    """Bytes in the storages of all CPU tensors that Python holds now."""
    import torch

    sizes = {}
    for thing in gc.get_objects():
        # type(), not isinstance: a proxy's __class__ may run code of the program's
        if issubclass(type(thing), torch.Tensor) and thing.layout == torch.strided and thing.device.type == "cpu":
            try:
                storage = thing.untyped_storage()
                sizes[storage._cdata] = storage.nbytes()
            except (RuntimeError, NotImplementedError):
                continue  # functional and fake tensors have none
    return sum(sizes.values())
