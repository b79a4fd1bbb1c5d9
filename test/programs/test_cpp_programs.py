"""C++ programs that know libtorch only: under a budget and under the fuzzer they print the bits that they print by themselves."""

import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
from cases import DROPPING, Case, Outcome, budget_for, failures

PROGRAMS = ("resnet", "lstm", "transformer", "threads", "raw_pointers")
# A write through a raw pointer to what an op made is not seen if that is dropped (docs/limits.md).
DROPPED = tuple(program for program in PROGRAMS if program != "raw_pointers")
BINARY = Path(__file__).resolve().parents[2] / "build" / "cpp" / "cpp_programs"
COMMAND = Path(sys.executable).with_name("tensorpager")
WITNESS_OPS = "50"
SECONDS = 300
SEEDS = int(os.environ.get("TENSORPAGER_TEST_SEEDS", "2"))


def run(program, folder, budget=None, seed=None, drops=False):
    """One run in a fresh process; without Tensorpager where there is no budget."""
    assert BINARY.exists(), f"{BINARY} is missing: run `cmake --build --preset dev`"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TENSORPAGER_")}
    variables |= {"OMP_NUM_THREADS": "1", "TENSORPAGER_WITNESS": WITNESS_OPS} | (DROPPING if drops else {})
    words, stats = [BINARY, program], folder / "stats.json"
    if budget is not None:
        options = ["--budget", str(budget), "--spill", folder, "--stats", stats]
        options += [] if seed is None else ["--fuzz", str(seed)]
        words = [COMMAND, "run", *options, "--", *words]
    begin = time.monotonic()
    done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=SECONDS)
    counts = json.loads(stats.read_text()) if stats.exists() else None
    return Outcome(done.returncode, done.stdout, done.stderr, seconds=time.monotonic() - begin, stats=counts)


@pytest.fixture(scope="session")
def outcome(tmp_path_factory):
    @cache
    def get(program, kind):
        budget = {"plain": None, "unlimited": "unlimited"}[kind]
        return run(program, tmp_path_factory.mktemp(program), budget)

    return get


QUICK = [Case(program, kind) for program in PROGRAMS for kind in ("unlimited", "quarter")]
QUICK += [Case(program, "fuzz", 1) for program in PROGRAMS]
QUICK += [Case(program, "drop", 1) for program in DROPPED]
SLOW = [Case(program, "half") for program in PROGRAMS]
SLOW += [Case(program, "fuzz", seed) for program in PROGRAMS for seed in range(2, 2 + 2 * SEEDS)]
SLOW += [Case(program, "fuzz-half", seed) for program in PROGRAMS for seed in range(1, 1 + 2 * SEEDS)]
SLOW += [Case(program, "drop", seed) for program in DROPPED for seed in range(2, 1 + 2 * SEEDS)]


@pytest.mark.e2e
@pytest.mark.parametrize("case", [*QUICK, *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW)], ids=str)
def test_prints_the_same_bits_within_its_budget(case, outcome, tmp_path):
    plain, unlimited = outcome(case.program, "plain"), outcome(case.program, "unlimited")
    assert failures(Case(case.program, "plain"), None, plain, None) == []
    if case.kind == "unlimited":
        assert failures(case, "unlimited", unlimited, plain) == []
        return
    budget = budget_for(case.share, unlimited.stats) if case.share else "unlimited"
    found = failures(case, budget, run(case.program, tmp_path, budget, case.seed, case.kind == "drop"), plain)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_agrees_with_itself_in_fresh_processes(program, outcome, tmp_path):
    plain = outcome(program, "plain").stdout
    assert {run(program, tmp_path).stdout for _ in range(5)} == {plain}
