"""`tensorpager run`: what it adds to a program, and what it leaves alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launch import STABLE, environment, run_command
from training import SHORT, make_model, train

import tensorpager

PROGRAM = """\
import sys
from training import make_model, train
print(sys.argv[1:], sys.stdin.read())
print(*train(make_model()))
sys.exit(7)
"""
STATS = (
    "device binding budget_bytes peak_bytes need_bytes floor_bytes over_budget_bytes outside_budget_bytes ops page_outs page_ins"
    " page_out_bytes page_in_bytes stall_seconds wall_seconds"
).split()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run with every option, and its statistics."""
    folder = tmp_path_factory.mktemp("run")
    options = ["--budget", SHORT, "--spill", folder, "--stats", folder / "stats.json"]
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = run_command("run", *options, "--", sys.executable, program, "--budget", "a  b", input="its input")
    done.stats = json.loads((folder / "stats.json").read_text())
    return done


@pytest.fixture(scope="module")
def run_by_variables(tmp_path_factory):
    """The same without an option, quiet, and with the fuzzer."""
    folder = tmp_path_factory.mktemp("variables")
    values = {"BUDGET": f"{SHORT}", "SPILL": "ram", "STATS": f"{folder}/stats.json", "QUIET": "1", "FUZZ": "5"}
    (folder / "program.py").write_text(PROGRAM)
    variables = {f"TENSORPAGER_{name}": value for name, value in values.items()}
    done = run_command("run", "--", sys.executable, "program.py", cwd=folder, variables=variables)
    done.stats = json.loads((folder / "stats.json").read_text())
    return done


@pytest.mark.forked
def test_losses_have_the_bits_of_a_run_without_it(run, run_by_variables):
    losses = " ".join(train(make_model()))
    assert run.stdout.splitlines()[1] == losses
    assert run_by_variables.stdout.splitlines()[1] == losses


def test_arguments_input_and_exit_code_pass_through(run, run_by_variables):
    assert run.stdout.splitlines()[0] == "['--budget', 'a  b'] its input"
    assert (run.returncode, run_by_variables.returncode) == (7, 7)


def test_budget_holds_while_the_program_needs_more(run):
    assert run.stats["peak_bytes"] <= SHORT < run.stats["need_bytes"]
    assert run.stats["over_budget_bytes"] == 0
    assert run.stats["page_outs"] > 0 and run.stats["page_ins"] > 0


def test_statistics_have_every_promised_name(run):
    assert [name for name in STATS if name not in run.stats] == []
    assert (run.stats["device"], run.stats["binding"], run.stats["budget_bytes"]) == (
        "cpu",
        "stable" if STABLE else "rebinding",
        SHORT,
    )
    assert 0 < run.stats["floor_bytes"] < run.stats["need_bytes"]
    assert 0 <= run.stats["stall_seconds"] <= run.stats["wall_seconds"]


def test_one_line_at_the_end_sums_up(run):
    (line,) = run.stderr.splitlines()
    assert line.startswith("tensorpager: need ") and "budget 1.00 MiB" in line
    assert f"{run.stats['page_outs']} page-outs" in line
    assert "OVER BUDGET" not in line


def test_quiet_drops_the_line(run_by_variables):
    assert run_by_variables.stderr == ""


def test_every_option_is_a_variable_too(run_by_variables):
    assert run_by_variables.stats["budget_bytes"] == SHORT
    assert run_by_variables.stats["spill"] == "RAM"
    assert run_by_variables.stats["fuzz_page_outs"] > 0


def test_options_come_before_variables():
    shown = "echo $TENSORPAGER_BUDGET $TENSORPAGER_SPILL $TENSORPAGER_STATS $TENSORPAGER_QUIET $TENSORPAGER_FUZZ"
    options = ["--budget", "5MB", "--spill", "/tmp", "--stats", "/a/b", "--quiet", "--fuzz", "7"]
    variables = {f"TENSORPAGER_{name}": "3" for name in ("BUDGET", "SPILL", "STATS", "FUZZ")}
    done = run_command("run", *options, "--", "sh", "-c", shown, variables=variables)
    assert (done.stdout, done.stderr) == ("5MB /tmp /a/b 1 7\n", "")


ODD_ARGUMENTS = [
    "",
    "a b",
    "--",
    "-",
    "--budget",
    "--help",
    "run",
    '"q"',
    "'q'",
    "x\\ny",
    "line\nfeed",
    "{}",
    "%",
    "++",
    "é",
]
LISTS = ["[1,2]", "[]", "[[1], 2]", "[a", "b]"]


@pytest.mark.parametrize("arguments", [ODD_ARGUMENTS, LISTS], ids=["odd", "in brackets"])
def test_no_argument_of_the_program_is_touched(arguments):
    show = [sys.executable, "-c", "import sys; print(sys.argv[1:])"]
    done = run_command("run", "--budget", "1GiB", "--", *show, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{arguments}\n", "")


def test_spill_directory_in_ram_is_remarked_on_unless_quiet():
    if " /dev/shm tmpfs " not in Path("/proc/mounts").read_text():
        pytest.skip("/dev/shm is no tmpfs here")
    options = ["--budget", "1GiB", "--spill", "/dev/shm"]
    (line,) = run_command("run", *options, "--", "true", remarks=True).stderr.splitlines()
    assert line.startswith("tensorpager: /dev/shm is in RAM (tmpfs)")
    assert run_command("run", *options, "--quiet", "--", "true", remarks=True).stderr == ""


@pytest.mark.forked
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("3000000", 3_000_000),
        ("3000KiB", 3000 << 10),
        ("3MiB", 3 << 20),
        ("0.5GiB", 1 << 29),
        ("3000KB", 3_000_000),
        ("2.5mb", 2_500_000),
        ("1 GB", 1_000_000_000),
        (3_000_000, 3_000_000),
    ],
)
def test_budget_is_taken_in_bytes_and_every_unit(spill, text, count):
    assert run_command("run", "--budget", text, "--", "true").returncode == 0
    with tensorpager.enable(budget=text, spill=spill):
        assert tensorpager.stats()["budget_bytes"] == count


@pytest.mark.forked
def test_budget_is_taken_as_a_share_of_the_memory_that_there_is(spill):
    assert run_command("run", "--budget", "50%", "--", "true").returncode == 0
    with tensorpager.enable(budget="50%", spill=spill):
        half = tensorpager.stats()["budget_bytes"]
    with tensorpager.enable(budget="100%", spill=spill):
        assert abs(tensorpager.stats()["budget_bytes"] - 2 * half) <= 1


def test_program_without_torch_runs_as_it_is(tmp_path):
    program = [sys.executable, "-c", "import sys; print(sys.stdin.read(), 'torch' in sys.modules); sys.exit('bye')"]
    plain = subprocess.run(program, input="in", capture_output=True, text=True, env=environment())
    done = run_command("run", "--budget", "1GiB", "--stats", tmp_path / "stats.json", "--", *program, input="in")
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert (plain.returncode, plain.stdout) == (1, "in False\n")
    assert not (tmp_path / "stats.json").exists()


def test_program_of_another_language_runs_as_it_is():
    done = run_command("run", "--budget", "1GiB", "--", "sh", "-c", "cat; echo err >&2; kill -TERM $$", input="in")
    assert (done.returncode, done.stdout, done.stderr) == (-15, "in", "err\n")
