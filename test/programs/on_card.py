"""Each program on the emulated CUDA card, under plans that page and that recompute as well, in several orders of kernels: a table. `bits` are
those under an ample budget, on demand; `windows` and `whole` are as in following.py, the smallest of all orders; `peak` is the highest of all, over the budget.

.venv/bin/python test/programs/on_card.py [--only gpt unet] [--shares 50 30] [--planners pages hybrid] [--orders now 1 2 threads] [--card FILE]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from cases import PROGRAMS, budget_for

FOLDER = pathlib.Path(__file__).parent
COMMAND = pathlib.Path(sys.executable).parent / "tensorpager"
STEPS = 16  # the first plans page; after some steps one is made that recomputes as well
AMPLE = 8 << 30  # bytes


def run(program: str, card: str, order: str, *options: object) -> tuple[dict, str, str]:
    """Its statistics, its output and, if it failed, its last line."""
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder) / "stats.json"
        command = [COMMAND, "run", "--quiet", "--emulate", card, "--emulate-seed", order, "--emulate-clock", "card"]
        command += ["--device", "cuda", "--stats", stats, *map(str, options), "--"]
        command += [sys.executable, FOLDER / f"{program}.py", "--device", "cuda", "--steps", str(STEPS)]
        # torch's own workspaces would be a large share of what these programs need.
        variables = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        wrong = "" if done.returncode == 0 else ([*done.stderr.splitlines(), ""][-2] or f"ended with {done.returncode}")
        return json.loads(stats.read_text()) if stats.exists() else {}, done.stdout, wrong


def case(program: str, share: int, planner: str, options: argparse.Namespace) -> str:
    need, bits, wrong = run(program, options.card, "now", "--budget", AMPLE, "--on-demand")
    if wrong:
        return wrong
    budget = budget_for(share / 100, need, "rebinding")
    recompute = f"--recompute={int(planner == 'hybrid')}"
    rows = []
    for order in options.orders:
        stats, output, wrong = run(program, options.card, order, "--budget", budget, "--plan-sync", recompute)
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
    parser.add_argument("--card", default="h100-80g", help="or a machine file")
    options = parser.parse_args()
    print(f"emulated {options.card}, {STEPS} steps, orders {', '.join(options.orders)}")
    head = f"{'budget':>7}{'peak':>8}{'windows':>9}{'whole':>7}{'drops':>7}{'races':>7}  bits"
    print(f"{'program':<22}{'planner':<8}{head}")
    cases = [
        (program, share, planner)
        for program in options.only
        for share in options.shares
        for planner in options.planners
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (program, _, planner), row in zip(cases, pool.map(lambda one: case(*one, options), cases), strict=True):
            print(f"{program:<22}{planner:<8}{row}", flush=True)


if __name__ == "__main__":
    main()
