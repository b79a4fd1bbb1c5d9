"""Plans that decide as published systems do: the program follows them as planned, and keeps its bits."""

import collections
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from launch import run_command

PROGRAM = Path(__file__).parent.parent / "programs" / "gpt.py"
COMMAND = [sys.executable, PROGRAM, "--steps", 6]
VARIABLES = {"OMP_NUM_THREADS": "1"}  # as many threads as there are when a plan is made
# Percent of need: enough for each, and so little that it has something to do.
CASES = [
    ("meng", 50),
    ("vdnn", 50),
    ("vdnnpp", 50),
    ("accudnn", 50),
    ("layrub", 50),
    ("sqrt", 50),
    ("dtr", 70),
    ("dtr", 50),
    ("monet", 50),
    ("capuchin", 70),
]
REPLAYED = ("sqrt", "dtr", "monet", "capuchin")


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    trace = tmp_path_factory.mktemp("trace") / "step.trace"
    done = run_command("trace", "-o", trace, "--", *COMMAND, seconds=300, variables=VARIABLES)
    assert done.returncode == 0, done.stderr
    return trace, done.stdout


def follow(traced, planner, percent, folder):
    """The plan's text, what the program printed under it, and the statistics."""
    plan, file = folder / "step.plan", folder / "stats.json"
    shutil.copy(traced[0], plan.with_suffix(".trace"))  # a plan's trace is beside it
    options = ["--budget", f"{percent}%", "--machine", "h200-141g", "--planner", planner, "-o", plan]
    made = run_command("plan", traced[0], *options)
    assert made.returncode == 0, made.stderr
    command = ["--plan", plan, "--quiet", "--stats", file, "--", *COMMAND]
    done = run_command("run", *command, seconds=300, variables=VARIABLES)
    assert done.returncode == 0, done.stderr
    return plan.read_text(), done.stdout, json.loads(file.read_text())


@pytest.mark.parametrize(("planner", "percent"), CASES)
def test_plan_is_followed_and_the_bits_stay(traced, planner, percent, tmp_path):
    plan, bits, stats = follow(traced, planner, percent, tmp_path)
    assert bits == traced[1]
    assert stats["windows_as_planned"] == stats["followed_windows"] > 3
    assert stats["failed_actions"] == 0
    assert (stats["drops"] > 0) == (planner in REPLAYED)
    assert stats["rebuilds"] == stats["drops"]
    assert ("leave=page_out" in plan) == (planner not in ("sqrt", "dtr", "monet"))


def test_storage_that_is_rebuilt_several_times_keeps_its_bits(traced, tmp_path):
    plan, bits, stats = follow(traced, "dtr", 50, tmp_path)
    kept = collections.Counter(re.findall(r"^replay op=\d+ before=\d+ keeps=(\d+)$", plan, re.MULTILINE))
    assert max(kept.values()) > 1
    assert bits == traced[1]
    assert stats["windows_as_planned"] == stats["followed_windows"] > 3
