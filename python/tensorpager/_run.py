"""What `tensorpager run` does inside the program's processes, once torch is imported there."""

from __future__ import annotations

import atexit
import json
import os
import sys

_OWNER = "TENSORPAGER_OWNER"  # process id of the first process that imported torch: its statistics are the run's


def activate() -> None:
    """Enables a session from the environment; a failure is one line and exit code 2."""
    from tensorpager import _session

    try:
        _session.enable()
    except (ImportError, ValueError, OSError) as error:
        print(f"tensorpager: {error}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(2)
    is_owner = os.environ.setdefault(_OWNER, str(os.getpid())) == str(os.getpid())
    atexit.register(_finish, os.getpid(), is_owner)


def _finish(pid: int, is_owner: bool) -> None:
    if os.getpid() != pid:
        return  # a forked child that runs its parent's exit handlers
    from tensorpager import _session

    stats = _session.stats()
    path = os.environ.get("TENSORPAGER_STATS")
    if path:
        _write(path if is_owner else f"{path}.{pid}", stats)
    if is_owner and os.environ.get("TENSORPAGER_QUIET", "0") in ("", "0"):
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
