"""What `tensorpager run` does inside the program's processes, once torch is imported there."""

from __future__ import annotations

import atexit
import json
import multiprocessing.util
import os
import sys

# PID:RANK of a run's first process, or of the first one of a rank that torchrun starts.
_OWNER = "TENSORPAGER_OWNER"


def activate() -> None:
    """Enables a session from the environment; a failure is one line and exit code 2."""
    from tensorpager import _session

    try:
        _session.enable()
    except (ImportError, ValueError, OSError) as error:
        print(f"tensorpager: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(2)
    atexit.register(_finish, os.getpid() if _becomes_owner() else 0)
    # A child forked by multiprocessing runs finalizers at its end, and no exit handlers.
    multiprocessing.util.register_after_fork(
        _finish, lambda finish: multiprocessing.util.Finalize(None, finish, (0,), exitpriority=0)
    )


def _rank() -> str:
    """As torchrun numbers this process, over all machines; empty where torchrun did not start it."""
    return os.environ.get("RANK", "") if "LOCAL_WORLD_SIZE" in os.environ else ""


def _becomes_owner() -> bool:
    """Whether this process speaks for the run, or for its rank. Children inherit what is written here."""
    owner = os.environ.get(_OWNER)
    if owner is not None and owner.partition(":")[2] == _rank():
        return owner.partition(":")[0] == str(os.getpid())
    os.environ[_OWNER] = f"{os.getpid()}:{_rank()}"
    return True


def _finish(owner: int) -> None:
    """At the end of a process; `owner` is its id if it is the owner, and not in a fork of the owner."""
    import torch.utils.data

    from tensorpager import _session

    stats = _session.stats()
    path = os.environ.get("TENSORPAGER_STATS")
    if os.getpid() != owner:
        if path and torch.utils.data.get_worker_info() is None:  # of loader workers there is a new set each epoch
            _write(f"{path}.{os.getpid()}", stats)
        return
    if "torch.distributed.launcher" in sys.modules and stats["ops"] == 0:
        return  # torchrun itself: its ranks speak
    rank = _rank()
    if path:
        _write(f"{path}.rank{rank}" if rank else path, stats)
    if os.environ.get("TENSORPAGER_QUIET", "0") in ("", "0"):
        print(summary(stats, f"rank {rank}: " if rank else ""), file=sys.stderr)


def _write(path: str, stats: dict) -> None:
    """All of it or nothing: pools and launchers end their children by a signal, at any moment."""
    is_special = os.path.exists(path) and not os.path.isfile(path)  # a pipe, or /dev/stderr
    folder, name = os.path.split(path)
    written = path if is_special else os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        with open(written, "w") as file:
            json.dump(stats, file, indent=1)
            file.write("\n")
        if not is_special:
            os.replace(written, path)
    except OSError as error:
        error.filename, error.filename2 = path, None
        print(f"tensorpager: cannot write the statistics: {error}", file=sys.stderr)


def summary(stats: dict, who: str = "") -> str:
    from tensorpager._core import format_bytes

    budget = format_bytes(stats["budget_bytes"]) if stats["budget_bytes"] < 1 << 60 else "unlimited"
    text = (
        f"tensorpager: {who}need {format_bytes(stats['need_bytes'])}, budget {budget}, peak {format_bytes(stats['peak_bytes'])}"
        f" (floor {format_bytes(stats['floor_bytes'])}); {stats['page_outs']} page-outs {format_bytes(stats['page_out_bytes'])},"
        f" {stats['page_ins']} page-ins {format_bytes(stats['page_in_bytes'])};"
        f" stalled {stats['stall_seconds']:.1f} of {stats['wall_seconds']:.1f} s"
    )
    if stats["over_budget_bytes"]:
        text += f"; OVER BUDGET by {format_bytes(stats['over_budget_bytes'])}"
    if stats["outside_budget_bytes"]:
        text += f"; {format_bytes(stats['outside_budget_bytes'])} of foreign memory outside the budget"
    return text
