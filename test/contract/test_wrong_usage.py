"""Mistakes are told in one line before anything runs, with exit code 2."""

import shutil
from pathlib import Path

import pytest
import torch
from launch import run_command

import tensorpager

TRAINING = "print('the program ran')"


def one_line(done):
    """The line, if that is all there is."""
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("tensorpager: ")
    return line


@pytest.mark.parametrize("size", ["lots", "-1GiB", "0", "8GiX", "1e9", "nan", "8 GiB more", "inf%"])
def test_size_that_is_none_is_refused(size):
    line = one_line(run_command("run", f"--budget={size}", "--", "echo", "ran"))
    assert f"'{size}' is not a size" in line


def test_variable_with_a_size_that_is_none_is_named():
    done = run_command("run", "--", "echo", "ran", variables={"TENSORPAGER_BUDGET": "lots"})
    assert one_line(done).startswith("tensorpager: TENSORPAGER_BUDGET: 'lots' is not a size; write bytes, KiB")


@pytest.mark.parametrize(("name", "text"), [("FUZZ", "soon"), ("QUIET", "maybe")])
def test_variable_with_a_wrong_value_is_named(name, text):
    done = run_command("run", "--budget", "1GiB", "--", "echo", "ran", variables={f"TENSORPAGER_{name}": text})
    assert one_line(done).startswith(f"tensorpager: TENSORPAGER_{name}: '{text}' is n")


def test_missing_budget_is_told_with_an_example():
    line = one_line(run_command("run", "--", "echo", "ran"))
    assert "no budget" in line and "tensorpager run --budget 8GiB -- python train.py" in line


def test_empty_variable_is_a_missing_budget():
    assert "no budget" in one_line(run_command("run", "--", "echo", "ran", variables={"TENSORPAGER_BUDGET": ""}))


@pytest.mark.parametrize("rest", [[], ["--"]])
def test_missing_program_is_told(rest):
    assert "no program: write it after --, as in `tensorpager run" in one_line(
        run_command("run", "--budget", "1GiB", *rest)
    )


@pytest.mark.parametrize("verb", [("run", "--budget", "1GiB", "--stats"), ("trace", "-o")])
def test_program_that_does_not_exist_removes_no_file_of_an_earlier_run(verb, tmp_path):
    file = tmp_path / "result"
    file.write_text("of an earlier run")
    line = one_line(run_command(*verb, file, "--", "pyhton", "train.py"))
    assert "cannot start 'pyhton': No such file or directory" in line
    assert file.read_text() == "of an earlier run"


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        pytest.param(("trace",), 2, id="trace"),
        pytest.param(
            ("estimate", "--machine", "h100-80g"), 1, marks=pytest.mark.stable("it is a dry run"), id="estimate"
        ),
    ],
)
def test_wrong_option_removes_no_file_of_an_earlier_run(verb, code, tmp_path):
    file = tmp_path / "step.trace"
    file.write_text("of an earlier run")
    done = run_command(*verb, "-o", file, "--", "true", variables={"TENSORPAGER_SPILL": "/nowhere/at/all"})
    assert done.returncode == code and "a spill file in /nowhere/at/all" in done.stderr
    assert file.read_text() == "of an earlier run"


def test_file_that_cannot_be_written_is_told_before_the_program_runs(tmp_path):
    file = tmp_path / "missing" / "step.trace"
    done = run_command("estimate", "--machine", "h100-80g", "-o", file, "--", "no_such_program")
    assert done.returncode == 1 and done.stdout == ""
    assert str(file) in done.stderr and "no_such_program" not in done.stderr


def test_unknown_option_is_told():
    assert "--bugdet" in one_line(run_command("run", "--bugdet", "1GiB", "--", "echo", "ran"))


@pytest.mark.parametrize("arguments", [[], ["walk"]])
def test_missing_or_unknown_verb_is_told(arguments):
    assert "tensorpager --help" in one_line(run_command(*arguments))


def test_program_that_does_not_exist_is_told():
    line = one_line(run_command("run", "--budget", "1GiB", "--", "no-such-program"))
    assert "cannot start 'no-such-program': No such file or directory" in line


@pytest.mark.parametrize(
    ("place", "reason"),
    [("missing", "No such file or directory"), ("a_file", "Not a directory"), ("/proc", "cannot ")],
    ids=["a missing one", "a file", "one in which nobody may write"],
)
def test_spill_directory_that_cannot_be_used_is_told(tmp_path, place, reason):
    (tmp_path / "a_file").write_text("")
    where = tmp_path / place
    line = one_line(run_command("run", "--budget", "1GiB", "--spill", where, "--", "echo", "ran"))
    assert f"a spill file in {where}" in line and reason in line
    assert "--spill" in line.split(";")[-1]


@pytest.mark.forked
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"budget": "lots"}, ValueError, "'lots' is not a size"),
        ({"budget": "1GiB", "spill": "/nowhere/at/all"}, OSError, "spill file in /nowhere/at/all"),
        ({"budget": "1GiB", "fuzz": -1}, ValueError, "'-1' is not a whole number"),
        ({"budget": "1GiB", "link": "fast"}, ValueError, "TENSORPAGER_LINK: 'fast'"),
        ({"budget": "1GiB", "plan_sync": "maybe"}, ValueError, "TENSORPAGER_PLAN_SYNC: 'maybe' is neither 1 nor 0"),
    ],
)
def test_enable_raises_what_the_command_tells_and_can_be_called_again(spill, options, error, text):
    with pytest.raises(error, match=text):
        tensorpager.enable(**options)
    with tensorpager.enable(budget="1GiB", spill=spill):
        assert tensorpager.stats()["budget_bytes"] == 1 << 30


def copy_made_for(folder, name, version):
    """A copy of the package that says so."""
    package = shutil.copytree(Path(tensorpager.__file__).parent, folder / "tensorpager")
    info = (package / "_build_info.py").read_text().splitlines()
    info = [f'{name} = "{version}"' if line.startswith(name) else line for line in info]
    (package / "_build_info.py").write_text("\n".join(info))
    return package


@pytest.fixture(
    params=[
        ("PYTHON", "2.7", "this is Python 3."),
        ("TORCH", "1.0.0", "this is torch 2."),
        ("TORCH", "2.1.0", "this is torch 2."),
    ],
)
def other_build(request, tmp_path):
    """A copy of the package as made for another Python or torch, and what is to be said of it."""
    name, version, found = request.param
    package = copy_made_for(tmp_path, name, version)
    (package / "_core.so").write_bytes(b"no library: it must not be loaded")
    return tmp_path, f"built for {'Python' if name == 'PYTHON' else 'torch'} {version}, {found}"


def test_build_for_another_python_or_torch_is_told(server, other_build):
    path, text = other_build
    done = server.start(path, TRAINING, path=path, TENSORPAGER_BUDGET="1GiB").wait()
    line = one_line(done)
    assert text in line and "run `make build` or `pip install .` with this" in line


def test_program_that_asks_for_a_session_from_such_a_build_gets_an_import_error(server, other_build):
    path, text = other_build
    program = "import tensorpager\ntry:\n    tensorpager.enable(budget='1GiB')\nexcept ImportError as error:\n    print(error)"
    done = server.start(path, program, path=path).wait()
    assert text in done.stdout and done.stderr == ""


def test_build_for_another_patch_release_or_without_cuda_is_the_same(server, tmp_path):
    major, minor, patch = torch.__version__.partition("+")[0].split(".")
    copy_made_for(tmp_path, "TORCH", f"{major}.{minor}.{int(patch) + 1}+cpu")
    text = "import tensorpager, torch; print(tensorpager.__file__, torch.ones(99).sum().item())"
    done = server.start(tmp_path, text, path=tmp_path, TENSORPAGER_BUDGET="1GiB").wait()
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/tensorpager/__init__.py 99.0\n")


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["doctor", "--help"], ["--version"]])
def test_help_is_not_a_mistake(arguments):
    done = run_command(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tensorpager" in done.stdout
