"""examples/phonemes.py: it learns, and under a budget it prints the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("tensorpager")
PROGRAM = ROOT / "examples" / "phonemes.py"
# Without a test: it begins as a step does, so that a plan drops what no backward pass needs then.
SMALL = ["--steps", "9", "--batch", "32", "--width", "96", "--test-words", "0"]
sys.path.insert(0, str(ROOT / "examples"))

import phonemes


def call(*words, seconds=600):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TENSORPAGER_")}
    variables["OMP_NUM_THREADS"] = "1"
    done = subprocess.run([str(word) for word in words], env=variables, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("train seconds")]


def test_dictionary_has_every_pronunciation_and_no_stress(tmp_path):
    path = tmp_path / "some.dict"
    path.write_text("read R EH1 D\nread(2) R IY1 D # present\na.b. EY1 B IY1\nmuchtoolong M AH1 CH\nred R EH1 D\n")
    dictionary = phonemes.Dictionary(path, 6)
    assert dictionary.phonemes == ["R", "EH", "D", "IY"]
    first = phonemes.FIRST
    assert dictionary.pronunciations["read"] == [[first, first + 1, first + 2], [first, first + 3, first + 2]]
    assert [word for word, _ in dictionary.training] + dictionary.test == ["read", "read", "red"]


@pytest.mark.parametrize(("one", "other", "distance"), [("", "ab", 2), ("kitten", "sitting", 3), ("abc", "abc", 0)])
def test_edit_distance(one, other, distance):
    assert phonemes.edit_distance(one, other) == distance


@pytest.mark.e2e
@pytest.mark.parametrize("options", [[], ["--recompute", "--link", "0.2GB/s", "--spill", "ram", "--plan-sync"]])
def test_prints_the_same_at_half_of_its_need(options, tmp_path):
    program = [sys.executable, PROGRAM, *SMALL]
    plain = call(*program)
    stats = tmp_path / "stats.json"

    def under(budget, *more):
        run = [COMMAND, "run", "--budget", budget, "--stats", stats, "--quiet", *more, "--"]
        assert call(*run, *program) == plain
        return json.loads(stats.read_text())

    budget = under("unlimited")["need_bytes"] // 2
    paged = under(budget, *options)
    assert paged["peak_bytes"] <= budget and paged["page_outs"] + paged["drops"] > 0
    assert (paged["drops"] > 0) == bool(options) and paged["drops"] == paged["rebuilds"]


@pytest.mark.slow
@pytest.mark.e2e
def test_learns_to_pronounce():
    lines = call(sys.executable, PROGRAM, "--steps", "450", "--batch", "256", "--test-words", "1000", seconds=1500)
    error = float(next(line for line in lines if line.startswith("test word error")).split()[3].rstrip(","))
    assert error < 0.7


def test_missing_data_is_one_line(tmp_path):
    done = subprocess.run([sys.executable, PROGRAM, "--data", tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"phonemes: no CMU dictionary in {tmp_path}/none: ") and "cmudict" in done.stderr
