"""A session in this process: what `enable()`, `stats()` and `disable()` do."""

from __future__ import annotations

import gc
import os
from types import TracebackType

from tensorpager import _collectives, _compiled, _exports, _extension, _higher_order, _steps, _threads
from tensorpager._say import say
from tensorpager._variables import is_on

_started_with_foreign_bytes = 0


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
    device: str | None = None,
    pinned: int | str | None = None,
    link: str | None = None,
    plan: str | None = None,
    plan_cache: str | None = None,
    on_demand: bool | None = None,
    recompute: bool | None = None,
    plan_sync: bool | None = None,
    quiet: bool | None = None,
    verify_replay: bool | None = None,
) -> Session:
    """Charges and pages what this process allocates from now on, on the CPU or on a CUDA device.

    The environment variable of a parameter, such as TENSORPAGER_PLAN_CACHE, applies if it is not given; docs/reference.md lists them.

    budget: bytes, or a size such as ``"2GiB"``, ``"500MB"``, ``"25%"`` (of RAM, under torchrun divided by the ranks on this machine; or of
        the CUDA device), ``"unlimited"``. Default: unlimited, which only counts.
    spill: a directory for paged-out bytes, or ``"ram"``. Default: the temporary directory.
    fuzz: seed of random evictions at every op, for testing.
    binding: ``"stable"``, the default: a tensor keeps its address; ``"rebinding"``: one arena of exactly the budget, as on a GPU. One
        process keeps to one binding.
    device: whose memory is charged and paged: ``"cpu"``, the default, or ``"cuda"``, which needs a budget and is always rebinding.
    pinned: the most pinned host memory for what a CUDA device pages out. Default: the machine's RAM.
    link: moves bytes no faster than this, ``"2GB/s"``, to emulate another machine.
    plan: a plan file to follow from the first op on, with its trace beside it, ``step.trace`` for ``step.plan``; several, with one boundary
        table, are separated by colons. If no budget is given, the plan's applies. Default: plans are made while the program runs.
    plan_cache: a directory in which the plans that are made are kept for later runs, and from which those of earlier runs are taken if they
        were made for the same steps and budget.
    on_demand: makes no plan: tensors move only when an op uses them or when they are in the way.
    recompute: plans may also drop tensors and run the ops again that made them, where that is quicker than to move them. Default: on a
        CUDA device.
    plan_sync: waits while a plan is made, instead of making it in the background, so that runs are reproducible.
    quiet: prints no line on standard error where a plan becomes active, and none on tensors that were made before and are therefore
        outside the budget.
    verify_replay: runs each op that can be run again twice more, on copies, and reports differences, for testing.

    Raises ValueError for a wrong value, a plan that is not right for its trace or for a larger budget, or when a session is active,
    OSError for a spill directory that cannot be used, ImportError where this build was made for another Python or torch. An op that does
    not fit raises ``torch.OutOfMemoryError``.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    core = _extension.load()
    before = _tensor_bytes(device or os.environ.get("TENSORPAGER_DEVICE") or "cpu")
    core.enable({name: str(int(value) if isinstance(value, bool) else value) for name, value in given.items()})
    global _started_with_foreign_bytes
    _started_with_foreign_bytes = before
    _install(core)
    if quiet is None:
        quiet = is_on("TENSORPAGER_QUIET")
    if before and not quiet:
        say(f"{core.format_bytes(before)} of tensors were made before enable() and stay outside the budget")
    return Session()


def adopt() -> bool:
    """Where the process, a C++ program with a Python inside, has a session already: adds Python's part to it. False where it has none."""
    core = _extension.load()
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
    core = _extension.load()
    if core.active():
        core.disable()
        _threads.uninstall()
        _steps.uninstall()
        _exports.uninstall()
        _collectives.uninstall()


def mark_step() -> None:
    """Says that a step of the program ends here, where no optimizer of torch's says it: plans and traces are made of what repeats."""
    core = _extension.load()
    if core.active():
        core.step_ends()


def stop_recording() -> None:
    """In a process that writes no trace: others of its run do."""
    _extension.load().stop_recording()


def write_trace(path: str) -> str:
    """What was recorded, to a file; returns what it is, in one line."""
    return _extension.load().write_trace(path)


def stats() -> dict:
    """What the session counted: one flat dictionary, with the unit in each name (see docs/formats.md). After `disable()`, as it was then."""
    return statistics(_extension.load().report())


def statistics(report) -> dict:
    """What a report of the extension's holds, as `stats()` gives it."""
    return _extension.load().statistics(report) | {"foreign_before_bytes": _started_with_foreign_bytes}


def write_statistics(report, path: str, *, is_of_first: bool = False) -> None:
    """The file of `--stats`: whole or not at all. Of several first processes, the one that ends first writes `path`. Raises OSError."""
    _extension.load().write_statistics(report, path, _started_with_foreign_bytes, is_of_first)


def _tensor_bytes(device: str) -> int:
    """Bytes in the storages of all tensors of a device that Python holds now."""
    import torch

    sizes = {}
    for thing in gc.get_objects():
        # type(), not isinstance: a proxy's __class__ may run code of the program's
        if issubclass(type(thing), torch.Tensor) and thing.layout == torch.strided and thing.device.type == device:
            try:
                storage = thing.untyped_storage()
                sizes[storage._cdata] = storage.nbytes()
            except (RuntimeError, NotImplementedError):
                continue  # functional and fake tensors have none
    return sum(sizes.values())
