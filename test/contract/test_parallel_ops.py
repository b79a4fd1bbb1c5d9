"""Ops that share their work among OpenMP's threads: those have no frames of their own, and what they read is pinned by the op's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launch import environment, run_command

PROGRAM = str(Path(__file__).parent / "openmp.py")
THREADS = {"OMP_NUM_THREADS": "2"}


@pytest.fixture(scope="module")
def plain():
    done = subprocess.run(
        [sys.executable, PROGRAM], check=True, capture_output=True, text=True, env=environment(**THREADS)
    )
    assert "\n2 True\n" in done.stdout  # threads, and that they are OpenMP's
    return done.stdout


FUZZ = pytest.param(("--budget", "unlimited", "--fuzz", "1"), id="fuzz", marks=pytest.mark.slow)


@pytest.mark.parametrize("options", [pytest.param(("--budget", "9MiB"), id="budget"), FUZZ])
def test_ops_on_two_threads_have_the_same_bits(options, plain, tmp_path):
    stats = tmp_path / "stats.json"
    done = run_command("run", *options, "--stats", stats, "--", sys.executable, PROGRAM, variables=THREADS)
    assert (done.returncode, done.stdout) == (0, plain), done.stderr
    found = json.loads(stats.read_text())
    assert found["page_outs"] > 0 and found["pins"] == found["over_budget_bytes"] == 0
    assert found["peak_bytes"] <= found["budget_bytes"]
    assert found["need_bytes"] > 15 << 20
