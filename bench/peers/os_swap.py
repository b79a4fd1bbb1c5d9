"""The same program in the same memory: paged by Tensorpager, and by the operating system's swap.

For each program and share of its need: first under `tensorpager run --budget`, in a cgroup without a limit, which says what private memory the process had at
most. With an allowance for the libraries' code that is the limit of both runs that are compared, each in a cgroup: paged by us, and plain with a swap file.
Needs root, to make cgroups and a swap file.

.venv/bin/python bench/peers/os_swap.py [--shares 50 25] [--only U-Net] [--rounds 1] [--swap DIR] [--json out/os_swap.json]
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))
from workloads import LARGE_CASES  # noqa: E402  (of the folder above)

STEPS, TIMED = 14, 4  # the last ones are timed: by then a plan is in force
SWAP_BYTES = 4 << 30
MOST_SECONDS = 240  # of a run that swaps; fewer steps are timed where it is cut off
ABOVE_FLOOR = 1.1
CODE_BYTES = 128 << 20  # of libraries, what training runs; they are mapped from files, and not private memory


class Cgroup:
    """A group of processes whose memory is counted, of either version of the kernel's interface."""

    def __init__(self, limit: int | None = None):
        v2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers")
        is_v2 = v2.exists() and "memory" in v2.read_text()
        root = pathlib.Path("/sys/fs/cgroup" if is_v2 else "/sys/fs/cgroup/memory")
        self.limit_file, self.private, self.groups = (
            ("memory.max", "anon", "cgroup.procs") if is_v2 else ("memory.limit_in_bytes", "rss", "tasks")
        )
        self.path = root / f"tensorpager-bench-{os.getpid()}"
        self.limit = limit

    def __enter__(self):
        self.path.mkdir()
        if self.limit is not None:
            (self.path / self.limit_file).write_text(str(self.limit))
        return self

    def __exit__(self, *_):
        self.path.rmdir()

    def enter(self) -> None:
        (self.path / self.groups).write_text(str(os.getpid()))

    def private_bytes(self) -> int:
        """Of memory that no file stands behind."""
        figures = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        return int(figures[self.private])


@contextlib.contextmanager
def watching(group: Cgroup):
    """Yields a function that says how many private bytes the group had at most."""
    most, is_over = 0, threading.Event()

    def watch():
        nonlocal most
        while not is_over.wait(0.02):
            most = max(most, group.private_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: most
    finally:
        is_over.set()
        thread.join()


@contextlib.contextmanager
def swap_file(directory: str):
    with tempfile.NamedTemporaryFile(dir=directory, prefix="swap-") as file:
        os.chmod(file.name, 0o600)
        os.posix_fallocate(file.fileno(), 0, SWAP_BYTES)
        subprocess.run(["mkswap", "-q", file.name], check=True)
        subprocess.run(["swapon", file.name], check=True)
        try:
            yield
        finally:
            subprocess.run(["swapoff", file.name], check=True)


def run(case: str, group: Cgroup, before: list[str] = (), limit_seconds: float | None = None) -> list[float]:
    """Seconds of each step that it came to."""
    with tempfile.NamedTemporaryFile("r") as seconds:
        command = [*before, sys.executable, FOLDER / "steps.py", case, "--steps", str(STEPS), "-o", seconds.name]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, preexec_fn=group.enter, timeout=limit_seconds, check=True)
        return [float(line) for line in seconds.read().split()]


def tensorpager(budget: int | str, *options: str) -> list[str]:
    executable = pathlib.Path(sys.executable).parent / "tensorpager"
    return [str(executable), "run", "--quiet", "--budget", str(budget), *options, "--"]


def need_and_floor(case: str) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as folder, Cgroup() as group:
        stats = pathlib.Path(folder) / "stats.json"
        run(case, group, tensorpager("unlimited", "--stats", str(stats)))
        figures = json.loads(stats.read_text())
    return figures["need_bytes"], figures["floor_bytes"]


def middle(seconds: list[float]) -> float:
    """Of the last steps; the first is never among them."""
    return statistics.median(seconds[1:][-TIMED:])


def measure(case: str, budget: int) -> dict:
    with Cgroup() as group:
        plain = run(case, group)
    with Cgroup() as group, watching(group) as most_private_bytes:
        run(case, group, tensorpager(budget))
        limit = most_private_bytes() + CODE_BYTES
    with Cgroup(limit) as group:
        paged = run(case, group, tensorpager(budget), limit_seconds=MOST_SECONDS)
    with Cgroup(limit) as group:
        swapped = run(case, group, limit_seconds=MOST_SECONDS)
    return {
        "limit_bytes": limit,
        "plain": middle(plain),
        "tensorpager": middle(paged),
        "swap": middle(swapped) if len(swapped) > 1 else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shares", type=int, nargs="+", default=[50, 25])
    parser.add_argument("--only", nargs="+", choices=list(LARGE_CASES), default=list(LARGE_CASES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--swap", default="/var/tmp", help="where the swap file goes; a file system that takes one")
    parser.add_argument("--json")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("os_swap: skipped: it needs root, to make cgroups and a swap file", file=sys.stderr)
        return 1
    print(
        f"measured: median of the last {TIMED} of {STEPS} steps (swap: of those within {MOST_SECONDS} s), torch at 1 thread; limit: of the whole process, for both"
    )
    print(f"{'work':<12}{'budget':>7}{'limit MiB':>11}{'plain ms':>10}{'paged':>8}{'swapped':>9}{'swap / ours':>13}")
    rows = []
    with swap_file(options.swap):
        for case in options.only:
            need, floor = need_and_floor(case)
            for share in options.shares:
                rounds = [
                    measure(case, max(need * share // 100, int(ABOVE_FLOOR * floor))) for _ in range(options.rounds)
                ]
                ours = statistics.median(one["tensorpager"] / one["plain"] for one in rounds)
                ratios = [one["swap"] / one["plain"] for one in rounds if one["swap"] is not None]
                swapped = statistics.median(ratios) if ratios else float("inf")
                plain = statistics.median(one["plain"] for one in rounds)
                limit = rounds[-1]["limit_bytes"] / 2**20
                print(
                    f"{case:<12}{share:>6}%{limit:>11.0f}{plain * 1e3:>10.0f}{ours:>8.2f}{swapped:>9.2f}{swapped / ours:>13.2f}",
                    flush=True,
                )
                rows.append({"case": case, "share": share, "rounds": rounds})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
