"""Every program prints its bits whatever leaves memory when: from many seeds, by paging out and by dropping what can be rebuilt.

`runner.py --brief --seeds 100` and `runner.py --drop --seeds 20`, for each binding, do more of the same: hours.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from cases import PROGRAMS

RUNNER = Path(__file__).with_name("runner.py")
QUICK = [("resnet", "stable"), ("seq2seq", "rebinding")]


def run_seeds(kind, seeds, program, binding, folder):
    command = [sys.executable, str(RUNNER), f"--{kind}", "--seeds", str(seeds), "--spill", "ram"]
    command += ["--folder", str(folder), "--program", program, "--binding", binding]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(("program", "binding"), QUICK)
def test_prints_the_same_bits_whatever_is_dropped(program, binding, tmp_path):
    run_seeds("drop", 1, program, binding, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seeds"), [("brief", 20), ("drop", 5)])
@pytest.mark.parametrize("binding", ["stable", "rebinding"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_prints_the_same_bits_from_many_seeds(program, binding, kind, seeds, tmp_path):
    run_seeds(kind, seeds, program, binding, tmp_path)
