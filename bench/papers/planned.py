"""Traces of programs as a card would run them, and plans for these, by the command line; simulated, no GPU is used.

All plans have the whole budget and the whole of the machines' links, whose rates are those that links deliver.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

COMMAND = Path(sys.executable).with_name("tensorpager")
HERE = Path(__file__).parent
LARGE = HERE.parents[1] / "test" / "programs" / "large"
GB, MB = 10**9, 10**6
GIB = 2**30


class Program(NamedTuple):
    path: Path
    options: str

    def with_batch(self, batch: int | str) -> "Program":
        return self._replace(options=f"{self.options} --batch {batch}")


class Row(NamedTuple):
    name: str
    program: Program
    machine: str
    budget: str
    published: str
    full: bool = False  # takes minutes
    traced_on: str = ""  # if torch's cuDNN has no recurrent nets for the machine: one that it has them for
    compared_with: Program | None = None  # whose step, with all resident, is the measure; None: its own


def vision(model: str, batch: int | None = None, *more: str) -> Program:
    program = Program(HERE / "vision.py", " ".join([f"--model {model}", *more]))
    return program if batch is None else program.with_batch(batch)


def large(name: str, options: str) -> Program:
    return Program(LARGE / f"{name}.py", options)


def trace_of(program: Program, machine: str, folder: Path) -> Path:
    """Of one step, as a dry run; made once."""
    trace = folder / f"{'_'.join([program.path.stem, *program.options.split(), Path(machine).name])}.trace"
    if not trace.exists():
        words = [COMMAND, "trace", "--dry", "--device", "cuda", "--machine", machine, "-o", trace, "--"]
        words += [sys.executable, program.path, *program.options.split()]
        subprocess.run(list(map(str, words)), check=True, capture_output=True)
    return trace


def plan_with(machine: str, budget: str, trace: Path, planner: str = "hybrid", timeout: float | None = None) -> dict:
    """The figures of `simulate --json`, and the seconds that planning took; only `fits` if there is no plan."""
    plan = trace.with_name(f"{planner}.plan")
    plan.unlink(missing_ok=True)
    on = [trace, "--machine", machine]
    how = ["--budget", budget, "--planner", planner, "--link-share", "100", "--reserve", "0", "-o", plan]
    begin = time.perf_counter()
    try:
        done = run("plan", *on, *how, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"fits": False, "late": True}
    seconds = time.perf_counter() - begin
    if not plan.exists():
        if done.returncode != 1:
            sys.exit(done.stderr)
        return {"fits": False, "plan_seconds": seconds, "why": done.stderr.replace(f"{trace.parent}/", "")}
    figures = json.loads(run("simulate", *on, "--plan", plan, "--json", "--curve").stdout)
    charged = average(figures.pop("curve"), figures.pop("op_starts"), figures["step_seconds"])
    return {**figures, "plan_seconds": seconds, "average_bytes": charged}


def average(charged: list[int], starts: list[float], step: float) -> float:
    """Bytes over the time of a step, of those that are charged during each op."""
    return sum(bytes * (end - start) for bytes, start, end in zip(charged, starts, [*starts[1:], step])) / step


def of_trace(machine: str, trace: Path) -> dict:
    """Need and floor in bytes, and the seconds of a step that moves nothing."""
    return json.loads(
        run("simulate", trace, "--machine", machine, "--planner", "resident", "--budget", "110%", "--json").stdout
    )


def run(*words, timeout: float | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=timeout)
