"""What `tensorpager run` does inside the program's processes, once torch is imported there."""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util
import os
import sys
from collections.abc import Callable

from tensorpager import _accelerator, _children, _dry, _extension, _gradients, _session
from tensorpager._say import say
from tensorpager._variables import is_on

_UNLIMITED = 1 << 60  # bytes
_RUN = "TENSORPAGER_RUN"  # process id of what `tensorpager run` became


def activate() -> None:
    """Makes the emulated card and enables a session, as the environment says; a failure is one line and exit code 2."""
    try:
        if _accelerator.is_emulated():
            _extension.load().install_emulation()
        if os.environ.get("TENSORPAGER_GRADIENTS"):
            steps, path = os.environ["TENSORPAGER_GRADIENTS"].split(":", 1)
            _gradients.install(path, int(steps))
        if not os.environ.get("TENSORPAGER_BUDGET"):
            atexit.register(_finish_emulation, os.getpid())
            return
        if _session.adopt():
            return  # who began it sums it up, too
        if not _accelerator.is_paged():
            _session.enable()
    except (ImportError, ValueError, OSError) as error:
        _end_with(error)
    if _accelerator.is_paged():
        _accelerator.when_initialised(_enable)
    elif _accelerator.is_recorded():
        _accelerator.watch(_extension.load())
    first = os.getpid() if _children.join() else 0
    if not first:
        _session.stop_recording()
    atexit.register(_finish, first)
    if is_on("TENSORPAGER_DRY"):
        _dry.install(_extension.load(), lambda: _finish(first))
    os.register_at_fork(after_in_child=lambda: _children.forked(_session.stats()))
    # A child forked by multiprocessing runs finalizers at its end, and no exit handlers.
    multiprocessing.util.register_after_fork(
        _finish, lambda finish: multiprocessing.util.Finalize(None, finish, (0,), exitpriority=0)
    )


def _enable() -> None:
    try:
        _session.enable()
    except (ImportError, ValueError, OSError) as error:
        _end_with(error)


def _end_with(error: Exception) -> None:
    say(error)
    sys.stderr.flush()
    os._exit(2)


def _finish(first: int) -> None:
    """At the end of a process; `first` is its id if it speaks for the run or for its rank, and it is no fork of that one."""
    import torch.utils.data

    _accelerator.let_engine_finish()
    core = _extension.load()
    report = core.report()
    stats = _session.statistics(report)
    path = os.environ.get("TENSORPAGER_STATS")
    if os.getpid() != first:
        if torch.utils.data.get_worker_info() is None:  # of loader workers there is a new set each epoch
            _children.tell(stats)
            if path:
                _try(lambda: _session.write_statistics(report, f"{path}.{os.getpid()}"))
        return
    if "torch.distributed.launcher" in sys.modules and stats["ops"] == 0:
        return  # torchrun itself: its ranks speak
    rank = _children.rank()
    suffix = f".rank{rank}" if rank else ""
    if path:
        _try(lambda: _session.write_statistics(report, path + suffix, is_of_first=True))
    is_quiet = is_on("TENSORPAGER_QUIET")
    if os.environ.get("TENSORPAGER_TRACE"):
        _write_trace(os.environ["TENSORPAGER_TRACE"] + suffix, is_quiet)
    if is_quiet:
        return
    if _accelerator.is_emulated():
        say(core.emulation_summary())
    if is_on("TENSORPAGER_DRY"):
        say(core.dry_report())
        return
    if _accelerator.is_paged() and stats["budget_bytes"] == 0:
        say(
            "the program did not use CUDA, so nothing was charged or paged; for its tensors on the CPU leave --device out"
        )
        return
    if stats["device"] == "cpu" and stats["budget_bytes"] < _UNLIMITED and _accelerator.is_used():
        say("the program used CUDA, and the budget was for the CPU's memory only; for the device's, add --device cuda")
    text = core.exit_line(report, _children.told(), rank)
    if not rank and os.environ.get(_RUN, str(first)) != str(first):
        text += f"; process {first}"  # a launcher without torch may have started several
    say(text)


def _finish_emulation(first: int) -> None:
    """At the end of a process that has the emulated card and no session."""
    if os.getpid() != first or multiprocessing.parent_process() is not None:
        return
    _accelerator.let_engine_finish()
    core = _extension.load()
    path = os.environ.get("TENSORPAGER_STATS")
    if path:
        _try(lambda: core.write_emulation_statistics(path))
    if not is_on("TENSORPAGER_QUIET"):
        say(core.emulation_summary())


def _try(write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        say(error)


def _write_trace(path: str, is_quiet: bool) -> None:
    try:
        found = _session.write_trace(path)
    except OSError as error:
        say(f"cannot write the trace: {error}")
        return
    if found and not is_quiet:
        say(found)
