"""`tensorpager doctor`: what it says of this machine and of the Python that it is asked about."""

import json
import resource
import sys

import pytest
from launch import COMMAND, run_command
from marks import needs_emulated_card

import tensorpager

CHECKS = "tensorpager kernel memory addresses data mappings huge-pages memlock spill gpus python torch trial".split()


def checks_of(done):
    report = json.loads(done.stdout)
    assert report["works"] == (done.returncode == 0) and done.stderr == ""
    return {check["name"]: check for check in report["checks"]}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A real answer, in an environment as under a session, which is not to be begun a second time, with options of others."""
    folder = tmp_path_factory.mktemp("spill")
    hook = str(tensorpager.__path__[0]) + "/hook"
    variables = {"TENSORPAGER_BUDGET": "1GiB", "PYTHONPATH": hook, "TENSORPAGER_SPILL": str(folder)}
    variables |= {"TENSORPAGER_PLAN": "none.plan", "TENSORPAGER_DRY": "1"}
    done = run_command("doctor", "--json", "--python", sys.executable, variables=variables)
    assert list(folder.iterdir()) == []
    return done, folder


def test_machine_that_runs_these_tests_works(here):
    done, folder = here
    checks = checks_of(done)
    assert done.returncode == 0 and list(checks) == CHECKS
    assert {check["verdict"] for check in checks.values()} <= {"ok", "warning"}
    assert checks["trial"]["found"] == "16.0 MiB of tensors paged through a budget of 4.00 MiB, all bytes equal"
    assert checks["spill"]["found"].startswith(f"{folder}: ") and " GiB free" in checks["spill"]["found"]
    assert ", a Python with torch has " in checks["mappings"]["found"]
    assert checks["torch"]["found"] in checks["tensorpager"]["found"]


@needs_emulated_card
@pytest.mark.stable("the trial on a GPU is its own")
def test_gpu_is_named_and_paged_on():
    words = ("run", "--emulate", "h100-80g", "--quiet", "--", COMMAND, "doctor", "--json", "--python", sys.executable)
    done = run_command(*words)
    gpu = checks_of(done)["gpu"]
    assert (done.returncode, gpu["verdict"], gpu["advice"]) == (0, "ok", "")
    assert gpu["found"].startswith("NVIDIA H100-80G (emulated), compute capability 9.0, 79.1 GiB, CUDA ")
    assert gpu["found"].endswith(": 64.0 MiB of tensors paged through a budget of 16.0 MiB, all bytes equal")


@pytest.fixture
def other_python(tmp_path):
    """A program in the place of a Python, that answers with these lines."""

    def make(*lines, end=""):
        path = tmp_path / "python"
        says = "".join(f"echo '{json.dumps(line)}'\n" for line in lines)
        path.write_text(f"#!/bin/sh\necho a greeting\n{says}{end}\n")
        path.chmod(0o755)
        return path

    return make


FOUND = {"python": "3.11.0", "executable": "/there/python"}
TORCH = {"torch": "2.11.0", "gpus": 0}
TRIAL = {"trial_bytes": 1 << 24, "trial_budget": 1 << 22, "mappings": 500}


@pytest.mark.parametrize(
    ("lines", "end", "name", "found"),
    [
        ([], "", "python", "ended with exit code 0"),
        ([], "kill -SEGV $$", "python", "ended by signal 11"),
        ([FOUND, {"no_torch": "No module named 'torch'"}], "", "torch", "none for /there/python (No module"),
        ([FOUND], "exit 3", "torch", "ended with exit code 3"),
        (
            [FOUND, TORCH, {"misfit": "built for torch 1.0, this is torch 2.11.0; build"}],
            "",
            "torch",
            "this is torch 2",
        ),
        ([FOUND, TORCH, {"failure": "IoError: no room"}], "", "trial", "IoError: no room"),
        ([FOUND, TORCH], "kill -SEGV $$", "trial", "ended by signal 11"),
    ],
)
def test_python_that_programs_cannot_be_run_with_is_told_with_what_to_try(other_python, lines, end, name, found):
    done = run_command("doctor", "--json", "--python", other_python(*lines, end=end))
    checks = checks_of(done)
    assert done.returncode == 1
    assert [check for check in checks if checks[check]["verdict"] == "not possible"] == [name] == list(checks)[-1:]
    assert found in checks[name]["found"] and checks[name]["advice"]


def test_gpu_that_cannot_be_paged_on_is_a_warning(other_python):
    torch, failure = TORCH | {"gpus": 1}, {"failure": "RuntimeError: CUDA error: no kernel image"}
    python = other_python(
        FOUND, torch, end=f"[ $3 = cpu ] && echo '{json.dumps(TRIAL)}' || echo '{json.dumps(failure)}'"
    )
    done = run_command("doctor", "--json", "--python", python)
    gpu = checks_of(done)["gpu"]
    assert (done.returncode, gpu["verdict"]) == (0, "warning")
    assert "no kernel image" in gpu["found"] and "new enough for torch's CUDA" in gpu["advice"]


def test_process_that_outlives_the_python_is_not_waited_for(other_python):
    done = run_command("doctor", "--json", "--python", other_python(FOUND, TORCH, TRIAL, end="sleep 30 &"), seconds=20)
    assert done.returncode == 0 and checks_of(done)["trial"]["verdict"] == "ok"


def test_python_that_is_missing_is_told():
    done = run_command("doctor", "--python", "/no/python")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("not possible")]
    assert "/no/python: not found; try: activate the program's virtual environment" in line


def test_each_check_is_a_line_and_the_last_sums_up(other_python):
    python = other_python(FOUND, TORCH, TRIAL)
    done = run_command("doctor", "--python", python)
    checks = checks_of(run_command("doctor", "--json", "--python", python))
    lines = done.stdout.splitlines()
    assert (done.returncode, lines.pop(), len(lines)) == (0, "`tensorpager run` works here", len(checks))
    for line, check in zip(lines, checks.values()):
        assert line.startswith(check["verdict"]) and check["name"] in line


def test_limit_of_addresses_is_not_possible(other_python):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    done = run_command("doctor", "--json", "--python", other_python(FOUND, TORCH, TRIAL), preexec_fn=limit)
    addresses = checks_of(done)["addresses"]
    assert (done.returncode, addresses["verdict"]) == (1, "not possible") and "ulimit -v" in addresses["advice"]


def test_spill_directory_that_cannot_be_used_is_not_possible_and_the_trial_goes_on_without(other_python, tmp_path):
    python = other_python(FOUND, TORCH, TRIAL, end=f'echo "$2" > {tmp_path}/asked')
    done = run_command("doctor", "--json", "--python", python, "--spill", "/nowhere")
    checks = checks_of(done)
    assert (done.returncode, checks["spill"]["verdict"], checks["trial"]["verdict"]) == (1, "not possible", "ok")
    assert (tmp_path / "asked").read_text() == "ram\n"


def test_program_after_the_options_is_a_mistake():
    done = run_command("doctor", "--", "python", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tensorpager: doctor starts no program; name its Python with --python\n"
