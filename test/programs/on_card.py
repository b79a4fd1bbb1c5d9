"""Each program on the emulated CUDA card, under plans that page and that recompute as well, in several orders of kernels, on one compute stream
and on several (in_streams.py): a table. `bits` are those on one stream under an ample budget, on demand; `windows` and `whole` are as in
following.py, the smallest of all orders; `peak` is the highest of all, over the budget.

.venv/bin/python test/programs/on_card.py [--only gpt unet] [--shares 50 30] [--planners pages hybrid] [--orders now 1 2 threads] [--streams 1 3]
    [--card FILE]
"""

import argparse
import itertools
import json
import os
import pathlib
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

from cases import PROGRAMS, budget_for

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "contract"))
from launch import emulated_python, run_command

STEPS = 16  # the first plans page; after some steps one is made that recomputes as well
AMPLE = 8 << 30  # bytes
SECONDS = 600  # for one run


def run(program: str, streams: int, card: str, order: str, *options: object) -> tuple[dict, str, str]:
    """Its statistics, its output and, if it failed, its last line."""
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder) / "stats.json"
        words = ["--quiet", "--emulate", card, "--emulate-seed", order, "--emulate-clock", "card", "--device", "cuda"]
        words += ["--stats", stats, *options, "--", *emulated_python()]
        words += [FOLDER / "in_streams.py", streams] if streams > 1 else []
        words += [FOLDER / f"{program}.py", "--device", "cuda", "--steps", STEPS]
        # torch's own workspaces would be a large share of what these programs need.
        done = run_command("run", *words, variables={"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, seconds=SECONDS)
        wrong = "" if done.returncode == 0 else ([*done.stderr.splitlines(), ""][-2] or f"ended with {done.returncode}")
        return json.loads(stats.read_text()) if stats.exists() else {}, done.stdout, wrong


class AmpleRuns:
    """What programs do under a budget that is larger than their need; each is run once."""

    def __init__(self, card: str):
        self._card = card
        self._runs: dict[tuple[str, int], tuple[dict, str, str]] = {}
        self._lock = threading.Lock()

    def of(self, program: str, streams: int) -> tuple[dict, str, str]:
        with self._lock:
            if (program, streams) not in self._runs:
                options = ("--budget", AMPLE, "--on-demand")
                self._runs[program, streams] = run(program, streams, self._card, "now", *options)
            return self._runs[program, streams]


def case(program: str, streams: int, share: int, planner: str, ample: AmpleRuns, options: argparse.Namespace) -> str:
    need, _, wrong = ample.of(program, streams)
    if wrong:
        return wrong
    _, bits, _ = ample.of(program, 1)
    budget = budget_for(share / 100, need, "rebinding")
    recompute = f"--recompute={int(planner == 'hybrid')}"
    rows = []
    for order in options.orders:
        stats, output, wrong = run(program, streams, options.card, order, "--budget", budget, "--plan-sync", recompute)
        if wrong:
            return f"order {order}, {budget} bytes: {wrong}"
        rows.append(stats | {"bits": output == bits, "races": stats["emulation"]["races"]})
    differing = [order for order, row in zip(options.orders, rows, strict=True) if not row["bits"]]
    peak = max(row["peak_bytes"] for row in rows) / budget
    least = [min(row[name] for row in rows) for name in ("followed_windows", "windows_as_planned", "drops")]
    races = sum(row["races"] for row in rows)
    share_of_need = budget / need["need_bytes"]
    return f"{share_of_need:>7.0%}{peak:>8.1%}{least[0]:>9}{least[1]:>7}{least[2]:>7}{races:>7}  " + (
        f"differ in {', '.join(differing)}" if differing else "equal"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=PROGRAMS)
    parser.add_argument("--shares", nargs="+", type=int, default=[50, 30], help="percent of need")
    parser.add_argument("--planners", nargs="+", default=["pages", "hybrid"], choices=["pages", "hybrid"])
    parser.add_argument("--orders", nargs="+", default=["now", "1"], help="of kernels, see --emulate-seed")
    parser.add_argument("--streams", nargs="+", type=int, default=[1])
    parser.add_argument("--card", default="h100-80g", help="or a machine file")
    options = parser.parse_args()
    print(f"emulated {options.card}, {STEPS} steps, orders {', '.join(options.orders)}")
    head = f"{'budget':>7}{'peak':>8}{'windows':>9}{'whole':>7}{'drops':>7}{'races':>7}  bits"
    print(f"{'program':<22}{'streams':<8}{'planner':<8}{head}")
    cases = list(itertools.product(options.only, options.streams, options.shares, options.planners))
    ample = AmpleRuns(options.card)
    emulated_python()  # before there are threads
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = pool.map(lambda one: case(*one, ample, options), cases)
        for (program, streams, _, planner), row in zip(cases, rows, strict=True):
            print(f"{program:<22}{streams:<8}{planner:<8}{row}", flush=True)


if __name__ == "__main__":
    main()
