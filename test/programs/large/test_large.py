"""The large programs run to their end on the host, at sizes that take seconds; and again with the options that change what they do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 120
SMALL = "--device cpu --steps 2"
CASES = (
    "resnet50 --batch 2 --depth 26 --size 32 --classes 10",
    "resnet50 --batch 2 --depth 26 --size 32 --classes 10 --workers 1 --channels-last --precision bfloat16",
    "gpt2 --batch 2 --length 16 --size tiny --vocabulary 100",
    "gpt2 --batch 2 --length 16 --size tiny --vocabulary 100 --autocast --checkpointing --trainer",
    "llama8b --batch 2 --length 16 --width 64 --layers 2 --heads 4 --vocabulary 100",
    "llama8b --batch 2 --length 16 --width 64 --layers 2 --heads 4 --vocabulary 100 --checkpointing --trainer",
    "llama8b --batch 2 --length 16 --width 64 --layers 2 --heads 4 --vocabulary 100 --chunks 2 --in-backward",
    "lstm --batch 4 --longest 6 --width 32 --words 50",
    "lstm --batch 4 --longest 6 --width 32 --words 50 --vary",
    "dcgan --batch 4 --size 32 --width 4 --latent 8",
    "unet --batch 1 --size 32 --width 4 --depth 2",
    "seq2seq --batch 4 --length 5 --width 16 --words 40",
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_program_runs_to_its_end(case, tmp_path):
    name, *options = case.split()
    words = [sys.executable, HERE / f"{name}.py", *SMALL.split(), *options]
    variables = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    losses = [line for line in done.stdout.splitlines() if "loss" in line or "critic" in line]
    assert len(losses) >= 2 and "nan" not in done.stdout
