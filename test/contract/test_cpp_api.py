"""The public header: sessions, guards, reports and errors of a C++ program that uses them."""

import json
import subprocess
from pathlib import Path

import pytest
from launch import environment, run_command

BUILT = Path(__file__).resolve().parents[2] / "build" / "cpp"


def aware(mode, folder, **variables):
    """What the program printed, a line each."""
    done = subprocess.run(
        [BUILT / "cpp_aware", mode, folder], env=environment(**variables), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def losses():
    """Of the program that `train` and `train_guarded` run, by itself."""
    program = [BUILT / "cpp_programs", "raw_pointers"]
    done = subprocess.run(program, env=environment(), capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@pytest.mark.stable("the program reads raw addresses without a guard")
def test_session_computes_the_same_bits_within_its_budget_and_reports(losses, tmp_path):
    lines = aware("train", tmp_path)
    assert lines[: len(losses)] == losses
    *figures, summary = lines[len(losses) :]
    assert figures == ["budget 2097152", "fits 1", "page_outs 1", "faults 1"]
    assert summary.startswith("tensorpager: need ") and "budget 2.00 MiB" in summary
    assert json.loads((tmp_path / "stats.json").read_text())["budget_bytes"] == 2 << 20
    assert list(tmp_path.iterdir()) == [tmp_path / "stats.json"]


@pytest.mark.stable("the program reads raw addresses without a guard")
def test_raw_addresses_under_guards_compute_the_same_bits(losses, tmp_path):
    lines = aware("train_guarded", tmp_path)
    assert lines == [*losses, "fits 1", "page_outs 1", "exports 1"]


@pytest.mark.stable("the program reads raw addresses without a guard")
def test_guard_keeps_its_tensor_resident_and_lets_go(tmp_path):
    *lines, too_many, after = aware("guard", tmp_path)
    assert lines == [
        f"exported {256 << 10}",
        "3",
        "faults under the guard 0",
        f"after a move {512 << 10}",
        f"after an assignment {256 << 10}",
        "after the guard 0",
        "3",
        "faults without 1",
        "live under a guard 1",
    ]
    assert too_many.startswith("after 8: Tensorpager: a guard: out of memory under the budget: 256 KiB asked for")
    assert after == "after too many 0"


def test_guard_takes_any_tensor(tmp_path):
    assert aware("guard_of_other_tensors", tmp_path) == ["exported 0", "parts 1", "right 1"]


def test_sessions_follow_one_another_and_tensors_outlive_them(tmp_path):
    nested, *lines = aware("sessions", tmp_path)
    assert nested == "Tensorpager: a session is active already, by an earlier Session or by `tensorpager run`"
    assert lines == ["page_outs 1", "7", "page_outs 0", "RAM"]


def test_session_under_run_is_refused(tmp_path):
    done = run_command("run", "--budget", "1GiB", "--quiet", "--", BUILT / "cpp_aware", "sessions", tmp_path)
    assert done.returncode == -6
    assert "a session is active already, by an earlier Session or by `tensorpager run`" in done.stderr


@pytest.mark.stable("the program reads raw addresses without a guard")
def test_variables_give_what_options_do_not(tmp_path):
    lines = aware("train", tmp_path, TENSORPAGER_BUDGET="1GiB", TENSORPAGER_FUZZ="3")
    assert "budget 2097152" in lines
    assert json.loads((tmp_path / "stats.json").read_text())["fuzz_page_outs"] > 0


@pytest.mark.stable("the program reads raw addresses without a guard")
def test_op_that_does_not_fit_is_caught_and_training_goes_on(losses, tmp_path):
    error, *lines = aware("out_of_memory", tmp_path)
    assert error.startswith("Tensorpager: aten::ones(): out of memory under the budget: 16.0 MiB asked for")
    assert lines == [*losses, "2"]


@pytest.mark.stable("the program names this binding, after it had a session under another")
def test_errors_are_standard_exceptions_of_one_line(tmp_path):
    sizes = "is not a size; write bytes, KiB/MiB/GiB, KB/MB/GB, N% of the memory or unlimited"
    missing = f"{tmp_path}/missing"
    assert aware("errors", tmp_path) == [
        f"size: invalid_argument: Tensorpager: TENSORPAGER_BUDGET: 'much' {sizes}",
        f"nothing: invalid_argument: Tensorpager: TENSORPAGER_BUDGET: '0' {sizes}",
        f"folder: runtime_error: Tensorpager: cannot open a spill file in {missing} (open: No such file or directory);"
        " choose another directory with --spill",
        "link: invalid_argument: Tensorpager: TENSORPAGER_LINK: 'fast' is not how fast bytes may move;"
        " write 2GB/s, or 2GB/s/4GB/s for out and in",
        "good: accepted",
        "all: accepted",
        "share: accepted",
        f"stats: runtime_error: Tensorpager: cannot write the statistics to {missing}/stats.json"
        " (write: No such file or directory)",
    ]
