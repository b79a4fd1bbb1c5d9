"""Every program, under a budget and under fuzz, prints the bits that it prints without tensorpager."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import PROGRAMS, standard_cases

RUNNER = Path(__file__).with_name("runner.py")
SEEDS = int(os.environ.get("TENSORPAGER_TEST_SEEDS", "2"))
# Each op pages something out: these are fuzzed in the full run only.
MANY_OPS = {
    "packed_lstm",
    "lstm_cell",
    "seq2seq",
    "accumulation",
    "checkpointing",
    "hugging_face_gpt2",
    "hugging_face_llama",
    "hugging_face_trainer",
}


def parameter(case):
    if case.kind == "fuzz":
        slow = case.binding != "stable" or case.seed > 1 or case.program in MANY_OPS
    else:
        slow = case.kind != ("quarter" if case.binding == "stable" else "half")
    return pytest.param(str(case), marks=[pytest.mark.slow] if slow else [])


@pytest.mark.e2e
@pytest.mark.parametrize(
    "case",
    [
        parameter(case)
        for binding in ("stable", "rebinding")
        for case in standard_cases(PROGRAMS, SEEDS, full=True, binding=binding)
    ],
)
def test_prints_the_same_bits_within_its_budget(case, selected_cases):
    failures = selected_cases.failures(case)
    assert not failures, "\n".join(failures)


def run_seeds(kind, seeds, program, binding, folder):
    command = [sys.executable, str(RUNNER), f"--{kind}", "--seeds", str(seeds), "--spill", "ram"]
    command += ["--folder", str(folder), "--program", program, "--binding", binding]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("binding", ["stable", "rebinding"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_prints_the_same_bits_from_a_hundred_seeds(program, binding, tmp_path):
    run_seeds("brief", 100, program, binding, tmp_path)


@pytest.mark.parametrize(("program", "binding"), [("resnet", "stable"), ("seq2seq", "rebinding")])
def test_prints_the_same_bits_whatever_is_dropped(program, binding, tmp_path):
    run_seeds("drop", 1, program, binding, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("binding", ["stable", "rebinding"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_prints_the_same_bits_from_twenty_seeds_that_drop(program, binding, tmp_path):
    run_seeds("drop", 20, program, binding, tmp_path)
