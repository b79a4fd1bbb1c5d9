"""What the child processes of a run did, for the line that its first process prints at exit.

The first process that imports torch keeps a file open that no name leads to, and its children append to it through /proc: nothing is left
behind, whoever is killed. Children that outlive the first process are told to nobody.
"""

from __future__ import annotations

import json
import os

_OWNER = "TENSORPAGER_OWNER"  # "PID/fd/N": the first process of a run that imported torch, and its file
_OWNER_RANK = "TENSORPAGER_OWNER_RANK"  # of that process
_TARGET = "/memfd:tensorpager (deleted)"
_SUMMED = ("page_outs", "page_out_bytes", "page_ins", "page_in_bytes", "stall_seconds")
_LARGEST = ("need_bytes", "peak_bytes", "over_budget_bytes")

_at_fork: dict = {}  # a fork's counts go on from its parent's; these are not its own


def rank() -> str:
    """As torchrun numbers this process, over all machines; empty where torchrun did not start it."""
    return os.environ.get("RANK", "") if "LOCAL_WORLD_SIZE" in os.environ else ""


def join() -> bool:
    """Whether this process is the first: none above it imported torch, or torchrun made it a rank of its own."""
    is_of_our_rank = os.environ.get(_OWNER_RANK, "") == rank()
    if is_of_our_rank and os.environ.get(_OWNER, "").partition("/")[0] not in ("", str(os.getpid())):
        return False
    os.environ[_OWNER_RANK] = rank()
    try:
        os.environ[_OWNER] = f"{os.getpid()}/fd/{os.memfd_create('tensorpager')}"
    except OSError:  # a sandbox may forbid it: children are then not told of
        os.environ[_OWNER] = str(os.getpid())
    return True


def forked(stats: dict) -> None:
    """In a fork, with the counts that it begins with."""
    _at_fork.update(stats)


def tell(stats: dict) -> None:
    """To the first process: what this one did. Nothing if it ran no op."""
    if stats["ops"] == _at_fork.get("ops", 0):
        return
    own = {name: stats[name] - _at_fork.get(name, 0) for name in _SUMMED}
    own |= {name: stats[name] for name in _LARGEST}
    path = f"/proc/{os.environ[_OWNER]}"
    try:
        # The process may have ended or closed its files, and the number be another file's.
        if os.readlink(path) == _TARGET:
            file = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.write(file, json.dumps(own).encode() + b"\n")
            os.close(file)
    except OSError:
        return  # it has ended: nobody is left to print a line


def told() -> dict | None:
    """Sums and maxima over the children that have ended, with their number as `children`; None if there were none."""
    path = f"/proc/{os.environ[_OWNER]}"
    try:
        if os.readlink(path) != _TARGET:
            return None
        with open(path, "rb") as file:
            children = [json.loads(line) for line in file]
    except OSError:
        return None
    if not children:
        return None
    total = {name: sum(child[name] for child in children) for name in _SUMMED}
    return total | {name: max(child[name] for child in children) for name in _LARGEST} | {"children": len(children)}
