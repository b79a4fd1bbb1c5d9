"""How each program follows the plans that a session makes of it at half of its need: a table. `followed` and `as planned` are shares of all ops since a plan became
active. `windows`: those of which each op was the expected one, and used and held just the blocks that the plan knows; `whole`: of those, how many had at every op
just the bytes resident that were planned.

.venv/bin/python test/programs/following.py [--binding rebinding] [--only gpt unet] [--json out/following_programs.json]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from cases import MIB, PROGRAMS, SHARES, budget_for

FOLDER = pathlib.Path(__file__).parent
COMMAND = pathlib.Path(sys.executable).parent / "tensorpager"
STEPS = 24  # plans are active after three or four


def run(program: str, steps: int, binding: str, budget: int | str) -> tuple[dict, str]:
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder) / "stats.json"
        command = [COMMAND, "run", "--quiet", "--plan-sync", "--binding", binding, "--budget", str(budget)]
        command += ["--stats", stats, "--", sys.executable, FOLDER / f"{program}.py", "--steps", str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"following: {program} under {budget} bytes ended with {done.returncode}: {done.stderr}")
        return json.loads(stats.read_text()), done.stdout


def follow(program: str, binding: str) -> dict:
    need, bits = run(program, STEPS, binding, "unlimited")
    budget = budget_for(SHARES["half"], need, binding)
    stats, same_bits = run(program, STEPS, binding, budget)
    return stats | {"as_planned": stats["ops_as_planned"] / max(1, stats["followed_ops"]), "bits": bits == same_bits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binding", default="stable", choices=["stable", "rebinding"])
    parser.add_argument("--only", nargs="+", default=PROGRAMS)
    parser.add_argument("--json")
    options = parser.parse_args()
    print(f"measured, {options.binding} binding: {STEPS} steps of each program")
    print(
        f"{'program':<22}{'budget MiB':>11}{'plans':>7}{'window':>8}{'followed':>10}{'as planned':>12}{'windows':>9}{'whole':>7}{'bits':>8}"
    )
    rows = {}
    for program in options.only:
        row = rows[program] = follow(program, options.binding)
        print(
            f"{program:<22}{row['budget_bytes'] / MIB:>11.1f}{row['plans']:>7}{row['window_ops']:>8}{row['followed_share']:>10.1%}"
            f"{row['as_planned']:>12.1%}{row['followed_windows']:>9}{row['windows_as_planned']:>7}{'equal' if row['bits'] else 'differ':>8}",
            flush=True,
        )
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
