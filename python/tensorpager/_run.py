"""What `tensorpager run` does inside the program's processes, once torch is imported there."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import multiprocessing.util
import os
import stat
import sys

from tensorpager import _accelerator, _children, _dry
from tensorpager._say import say

_RUN = "TENSORPAGER_RUN"  # process id of what `tensorpager run` became


def activate() -> None:
    """Makes the emulated card and enables a session, as the environment says; a failure is one line and exit code 2."""
    from tensorpager import _session

    try:
        if _accelerator.is_emulated():
            _session._core().install_emulation()
        if not os.environ.get("TENSORPAGER_BUDGET"):
            atexit.register(_finish_emulation, os.getpid())
            return
        if _session.adopt():
            return  # who began it sums it up, too
        _session.enable()
    except (ImportError, ValueError, OSError) as error:
        say(error)
        sys.stderr.flush()
        os._exit(2)
    if _accelerator.is_recorded():
        _accelerator.watch(_session._core())
    first = os.getpid() if _children.join() else 0
    if not first:
        _session.stop_recording()
    atexit.register(_finish, first)
    if _is_on("TENSORPAGER_DRY"):
        _dry.install(_session._core(), lambda: _finish(first))
    os.register_at_fork(after_in_child=lambda: _children.forked(_session.stats()))
    # A child forked by multiprocessing runs finalizers at its end, and no exit handlers.
    multiprocessing.util.register_after_fork(
        _finish, lambda finish: multiprocessing.util.Finalize(None, finish, (0,), exitpriority=0)
    )


def _finish(first: int) -> None:
    """At the end of a process; `first` is its id if it speaks for the run or for its rank, and it is no fork of that one."""
    import torch.utils.data

    from tensorpager import _session

    stats = _session.stats()
    if _accelerator.is_emulated():
        stats["emulation"] = _accelerator.report(_session._core())
    path = os.environ.get("TENSORPAGER_STATS")
    if os.getpid() != first:
        if torch.utils.data.get_worker_info() is None:  # of loader workers there is a new set each epoch
            _children.tell(stats)
            if path:
                _write(f"{path}.{os.getpid()}", stats)
        return
    if "torch.distributed.launcher" in sys.modules and stats["ops"] == 0:
        return  # torchrun itself: its ranks speak
    rank = _children.rank()
    if path:
        _write_as_first(f"{path}.rank{rank}" if rank else path, stats)
    is_quiet = _is_on("TENSORPAGER_QUIET")
    if os.environ.get("TENSORPAGER_TRACE"):
        _write_trace(os.environ["TENSORPAGER_TRACE"] + (f".rank{rank}" if rank else ""), is_quiet)
    if not is_quiet and _accelerator.is_emulated():
        say(_session._core().emulation_summary())
    if not is_quiet and _is_on("TENSORPAGER_DRY"):
        say(_session._core().dry_report())
    elif not is_quiet:
        text = summary(stats, _children.told(), f"rank {rank}: " if rank else "")
        if not rank and os.environ.get(_RUN, str(first)) != str(first):
            text += f"; process {first}"  # a launcher without torch may have started several
        say(text)


def _finish_emulation(first: int) -> None:
    """At the end of a process that has the emulated card and no session."""
    from tensorpager import _session

    if os.getpid() != first or multiprocessing.parent_process() is not None:
        return
    path = os.environ.get("TENSORPAGER_STATS")
    if path:
        _write(path, {"emulation": _accelerator.report(_session._core())})
    if not _is_on("TENSORPAGER_QUIET"):
        say(_session._core().emulation_summary())


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")


def _write_trace(path: str, is_quiet: bool) -> None:
    from tensorpager import _session

    try:
        found = _session.write_trace(path)
    except OSError as error:
        say(f"cannot write the trace: {error}")
        return
    if found and not is_quiet:
        say(found)


def _write_as_first(path: str, stats: dict) -> None:
    """A launcher without torch may have started several first processes: `path` is for the one that ends first, as linking a file is atomic.
    `run` took away what an earlier run had left.
    """
    try:
        _write(path, stats, only_new=True)
    except FileExistsError:
        _write(f"{path}.{os.getpid()}", stats)


def _write(path: str, stats: dict, *, only_new: bool = False) -> None:
    """All of it or nothing: pools and launchers end their children by a signal, at any moment."""
    is_special = os.path.exists(path) and not stat.S_ISREG(
        os.stat(path).st_mode
    )  # a pipe or a device, which all may write to
    folder, name = os.path.split(path)
    written = path if is_special else os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        with open(written, "w") as file:
            json.dump(stats, file, indent=1)
            file.write("\n")
        if is_special:
            return
        if not only_new:
            os.replace(written, path)
            return
        try:
            os.link(written, path)
        finally:
            os.unlink(written)
    except FileExistsError:
        raise
    except OSError as error:
        error.filename, error.filename2 = path, None
        say(f"cannot write the statistics: {error}")


def summary(stats: dict, children: dict | None = None, who: str = "") -> str:
    from tensorpager._core import format_bytes

    budget = "budget " + (format_bytes(stats["budget_bytes"]) if stats["budget_bytes"] < 1 << 60 else "unlimited")
    need = f"need {format_bytes(stats['need_bytes'])}"
    peak = f"peak {format_bytes(stats['peak_bytes'])} (floor {format_bytes(stats['floor_bytes'])})"
    text = f"{who}{need}, {budget}, {peak}; {_paging(stats)} of {stats['wall_seconds']:.1f} s"
    if not stats["need_bytes"]:
        text = f"{who}{budget}; no tensors in this process"
    if stats["over_budget_bytes"]:
        text += f"; OVER BUDGET by {format_bytes(stats['over_budget_bytes'])}"
    if stats["outside_budget_bytes"]:
        text += f"; {format_bytes(stats['outside_budget_bytes'])} of foreign memory outside the budget"
    if children:
        number = "1 child process" if children["children"] == 1 else f"{children['children']} child processes"
        most = (
            f"need at most {format_bytes(children['need_bytes'])}, peak at most {format_bytes(children['peak_bytes'])}"
        )
        text += f"; {number}: {most}; {_paging(children)} s"
        if children["over_budget_bytes"]:
            text += f"; OVER BUDGET by {format_bytes(children['over_budget_bytes'])}"
    return text


def _paging(counts: dict) -> str:
    from tensorpager._core import format_bytes

    return (
        f"{counts['page_outs']} page-outs {format_bytes(counts['page_out_bytes'])},"
        f" {counts['page_ins']} page-ins {format_bytes(counts['page_in_bytes'])}; stalled {counts['stall_seconds']:.1f}"
    )
