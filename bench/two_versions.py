"""Steps of this version of Tensorpager over those of another one that is installed elsewhere, with all resident and under a plan.

.venv/bin/python bench/two_versions.py OTHER [--sessions 3] [--rounds 8] [--share 50] [--only resident|planned] [--names NAME ...]
    [--json out/two_versions.json]

OTHER is the folder that holds the other version's package `tensorpager`, of the same Python and torch. A session is a process of each
version; in a round each works for a second, in turn. What a plan costs differs from session to session by more than within one, as plans
are made of measured times.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import interception
import torch
import workloads
from following import ABOVE_FLOOR, LEAST_SECONDS, LEAST_STEPS

import tensorpager

STEPS_UNTIL_REST = 30  # of a plan: it is found, made again from the times seen, and recording pauses
KINDS = {"resident": interception.CASES, "planned": workloads.CASES}


def work(kind: str, name: str, share: float) -> None:
    """A process of one version: for each line that comes, steps for a second; it answers with what a step took."""
    os.environ["TENSORPAGER_PLAN_SYNC"] = "1"
    torch.set_num_threads(1)
    with tensorpager.enable(budget="unlimited", quiet=True):
        step = KINDS[kind][name]()
        step(), step()
    need, floor = (tensorpager.stats()[key] for key in ("need_bytes", "floor_bytes"))
    budget = "unlimited" if kind == "resident" else max(int(share * need), int(ABOVE_FLOOR * floor))
    with tensorpager.enable(budget=budget, quiet=True):
        for _ in range(STEPS_UNTIL_REST):
            step()
        print("ready", flush=True)
        for _ in sys.stdin:
            before = tensorpager.stats()
            wall, cpu, steps = time.perf_counter(), time.thread_time(), 0
            while steps < LEAST_STEPS or time.perf_counter() - wall < LEAST_SECONDS:
                step()
                steps += 1
            took = {"wall": (time.perf_counter() - wall) / steps, "cpu": (time.thread_time() - cpu) / steps}
            after = tensorpager.stats()
            took["moved"] = sum(after[key] - before[key] for key in ("page_outs", "page_ins")) / steps
            print(json.dumps(took), flush=True)


class Version:
    """A process that steps one version."""

    def __init__(self, packages: str | None, *words: str):
        environment = dict(os.environ) | ({"PYTHONPATH": packages} if packages else {})
        command = [sys.executable, __file__, "--work", *words]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit(f"two_versions: no session with the packages of {packages or 'this version'}")

    def turn(self) -> dict:
        print("", file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def measure(other: str, words: tuple[str, ...], rounds: int, other_first: bool) -> dict:
    """Medians of a session."""
    first, second = (other, None) if other_first else (None, other)
    versions = [Version(packages, *words) for packages in (first, second)]
    turns = [[], []]
    for index in range(rounds):
        for which in (0, 1) if index % 2 == 0 else (1, 0):
            turns[which].append(versions[which].turn())
    for version in versions:
        version.end()
    theirs, ours = turns if other_first else reversed(turns)
    median = {key: statistics.median(b[key] / a[key] for a, b in zip(theirs, ours)) for key in ("wall", "cpu")}
    median["step_seconds"] = [statistics.median(turn["wall"] for turn in one) for one in (theirs, ours)]
    median["moved"] = [statistics.median(turn["moved"] for turn in one) for one in (theirs, ours)]
    return median


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        kind, name, share = sys.argv[2:]
        return work(kind, name, float(share))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other")
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--share", type=int, default=50, help="budget under a plan, in percent of the need")
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--names", nargs="+", choices=sorted({name for cases in KINDS.values() for name in cases}))
    parser.add_argument("--json")
    options = parser.parse_args()
    print(
        f"measured: a step over the other version's, medians of {options.rounds} turns in each of {options.sessions} sessions, torch at 1 thread; CPU time is that of the thread that computes"
    )
    width = max(8 * options.sessions, 14)
    print(f"{'work':<30}{'wall':>7}{'CPU':>7}  {'each session':>{width}}{'ms a step, theirs, ours':>26}{'moved':>7}")
    rows = {}
    for kind in [options.only] if options.only else KINDS:
        for name in KINDS[kind]:
            if options.names and name not in options.names:
                continue
            words = (kind, name, str(options.share / 100))
            sessions = [
                measure(options.other, words, options.rounds, index % 2 == 0) for index in range(options.sessions)
            ]
            rows[f"{name}, {kind}"] = sessions
            wall, cpu = (statistics.median(session[key] for session in sessions) for key in ("wall", "cpu"))
            each = "".join(f"{session['wall']:8.3f}" for session in sessions)
            step, moved = (
                [statistics.median(session[key][which] for session in sessions) for which in (0, 1)]
                for key in ("step_seconds", "moved")
            )
            print(
                f"{name + ', ' + kind:<30}{wall:>7.3f}{cpu:>7.3f}  {each:>{width}}{step[0] * 1e3:>18.2f}{step[1] * 1e3:>8.2f}{moved[0]:>7.0f}{moved[1]:>5.0f}",
                flush=True,
            )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
