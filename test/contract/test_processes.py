"""Loader workers, pools, queues and pipes under `tensorpager run`: the same bits, with each process in a part of what it needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launch import environment, run_command
from marks import slow

PROGRAM = str(Path(__file__).parent / "every_process.py")
NEED, BUDGET = 19 << 20, 6 << 20  # bytes of the parent


@pytest.fixture(scope="module")
def plain():
    command = [sys.executable, PROGRAM]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment(), timeout=200).stdout


@pytest.mark.parametrize(
    "options",
    [
        ["--budget", BUDGET],
        *(slow(["--budget", budget, "--fuzz", seed]) for budget in (BUDGET, "unlimited") for seed in (1, 2, 3)),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_programs_of_several_processes_print_the_same_bits(options, plain, spill, tmp_path):
    options = [*options, "--spill", spill, "--stats", tmp_path / "stats.json"]
    done = run_command("run", *options, "--", sys.executable, PROGRAM, seconds=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain
    parent = json.loads((tmp_path / "stats.json").read_text())
    assert parent["need_bytes"] > NEED and parent["pins"] == parent["export_bytes"] == 0
    children = [json.loads(path.read_text()) for path in tmp_path.glob("stats.json.*")]
    assert len(children) >= 5
    for process in [parent, *children]:
        assert process["over_budget_bytes"] == 0
        if BUDGET in options:
            assert process["peak_bytes"] <= process["budget_bytes"] == BUDGET
    assert parent["page_outs"] > 1000
