"""A program that differs from itself in fresh processes, where addresses differ, could prove nothing about tensorpager."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import PROGRAMS

RUNS = 10
FOLDER = Path(__file__).parent


def fresh_output(program):
    command = [sys.executable, str(FOLDER / f"{program}.py")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_agrees_with_itself_in_fresh_processes(program):
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(fresh_output, [program] * RUNS))
    assert "digest " in outputs[0]
    assert len(set(outputs)) == 1, f"{len(set(outputs))} different outputs in {RUNS} runs"
