"""What `tensorpager run` does inside the program's processes, once torch is imported there."""

from __future__ import annotations

import atexit
import json
import multiprocessing.util
import os
import sys

_OWNER = "TENSORPAGER_OWNER"  # process id of the first process that imported torch: its statistics are the run's


def activate() -> None:
    """Enables a session from the environment; a failure is one line and exit code 2."""
    from tensorpager import _session

    try:
        if _session.adopt():
            return  # who began it sums it up, too
        _session.enable()
    except (ImportError, ValueError, OSError) as error:
        print(f"tensorpager: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(2)
    is_owner = os.environ.setdefault(_OWNER, str(os.getpid())) == str(os.getpid())
    atexit.register(_finish, os.getpid() if is_owner else 0)
    # A child forked by multiprocessing runs finalizers at its end, and no exit handlers.
    multiprocessing.util.register_after_fork(
        _finish, lambda finish: multiprocessing.util.Finalize(None, finish, (0,), exitpriority=0)
    )


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
    if path:
        _write(path, stats)
    if os.environ.get("TENSORPAGER_QUIET", "0") in ("", "0"):
        print(summary(stats), file=sys.stderr)


def _write(path: str, stats: dict) -> None:
    try:
        with open(path, "w") as file:
            json.dump(stats, file, indent=1)
            file.write("\n")
    except OSError as error:
        print(f"tensorpager: cannot write the statistics: {error}", file=sys.stderr)


def summary(stats: dict) -> str:
    from tensorpager._core import format_bytes

    budget = format_bytes(stats["budget_bytes"]) if stats["budget_bytes"] < 1 << 60 else "unlimited"
    text = (
        f"tensorpager: need {format_bytes(stats['need_bytes'])}, budget {budget}, peak {format_bytes(stats['peak_bytes'])}"
        f" (floor {format_bytes(stats['floor_bytes'])}); {stats['page_outs']} page-outs {format_bytes(stats['page_out_bytes'])},"
        f" {stats['page_ins']} page-ins {format_bytes(stats['page_in_bytes'])};"
        f" stalled {stats['stall_seconds']:.1f} of {stats['wall_seconds']:.1f} s"
    )
    if stats["over_budget_bytes"]:
        text += f"; OVER BUDGET by {format_bytes(stats['over_budget_bytes'])}"
    if stats["outside_budget_bytes"]:
        text += f"; {format_bytes(stats['outside_budget_bytes'])} of foreign memory outside the budget"
    return text
