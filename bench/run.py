"""Runs every benchmark of training in this folder, one after the other, each in a process of its own.

make bench
"""

import pathlib
import subprocess
import sys

BENCHMARKS = [
    "interception.py",
    "interception_parts.py",
    "page_tables.py",
    "on_demand.py",
    "following.py",
    "programs.py",
    "data_parallel.py",
]


def main() -> int:
    folder = pathlib.Path(__file__).parent
    failed = []
    for name in BENCHMARKS:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, folder / name], check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
