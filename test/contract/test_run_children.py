"""`tensorpager run` and the Python around it: child processes, the import path, the import of torch."""

import json
import subprocess
import sys

import pytest
from launch import environment, run_command

PARENT = """\
import multiprocessing, os, subprocess, sys

def child(name):
    import torch
    from training import make_model, train
    print(name, os.getpid(), *train(make_model()), flush=True)

if __name__ == "__main__":
    import torch
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import program; program.child('subprocess')"
    started = [subprocess.Popen([sys.executable, "-c", code])]
    started.append(multiprocessing.get_context("spawn").Process(target=child, args=("spawn",)))
    started[1].start()
    child("parent")
    started.append(multiprocessing.get_context("fork").Process(target=child, args=("fork",)))
    started[2].start()
    codes = [started[0].wait()]
    for process in started[1:]:
        process.join()
        codes.append(process.exitcode)
    print("codes", *codes)
"""


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """A program and its three children: for each, what it printed and its statistics."""
    folder = tmp_path_factory.mktemp("family")
    (folder / "program.py").write_text(PARENT)
    options = ["--budget", "1MiB", "--spill", folder, "--stats", folder / "stats.json"]
    done = run_command("run", *options, "--", sys.executable, folder / "program.py")
    lines = {words[0]: words[1:] for words in map(str.split, done.stdout.splitlines())}
    assert lines.pop("codes") == ["0", "0", "0"], done.stderr
    for name, (pid, *losses) in lines.items():
        path = folder / ("stats.json" if name == "parent" else f"stats.json.{pid}")
        lines[name] = (losses, json.loads(path.read_text()) if path.exists() else None)
    return lines, done.stderr


@pytest.mark.parametrize("how", ["subprocess", "spawn", "fork"])
def test_child_process_is_paged_and_writes_its_own_statistics(family, how):
    (losses, stats), (parents_losses, parents_stats) = family[0][how], family[0]["parent"]
    assert losses == parents_losses
    assert stats["budget_bytes"] == 1 << 20 >= stats["peak_bytes"]
    # A fork goes on from its parent's counts, and the parent did no more afterwards.
    assert stats["page_outs"] > (parents_stats["page_outs"] if how == "fork" else 0)


def test_only_the_parent_prints_a_line(family):
    (line,) = family[1].splitlines()
    assert line.startswith("tensorpager: need ")


def python(code, **variables):
    return run_command("run", "--budget", "1GiB", "--", sys.executable, "-c", code, variables=variables)


def test_path_of_the_program_keeps_working(tmp_path):
    (tmp_path / "theirs.py").write_text("value = 'theirs'\n")
    assert python("import theirs; print(theirs.value)", PYTHONPATH=str(tmp_path)).stdout == "theirs\n"


def test_environment_without_a_path_gets_no_empty_entry_which_would_be_the_current_folder(tmp_path):
    (tmp_path / "stray.py").write_text("")
    variables = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
    code = "import importlib.util; print(importlib.util.find_spec('stray'))"
    done = run_command("run", "--budget", "1GiB", "--", sys.executable, "-c", code, cwd=tmp_path, variables=variables)
    assert done.stdout == "None\n"


def test_sitecustomize_of_the_program_is_run_and_can_be_imported(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('run')\nvalue = 'theirs'\n")
    done = python("import sitecustomize; print(sitecustomize.value)", PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.stderr) == ("run\ntheirs\n", "")


def test_sitecustomize_that_fails_is_told_as_ever_and_the_program_is_paged(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise RuntimeError('theirs')\n")
    fake_torch(tmp_path)
    done = python("import torch", PYTHONPATH=str(tmp_path))
    assert "RuntimeError: theirs" in done.stderr
    assert done.returncode == 2  # the session refuses the fake: it was asked to begin


def fake_torch(folder):
    (folder / "torch.py").write_text("__version__ = '0.0-fake'\n")


def test_session_begins_when_torch_is_imported_even_if_it_was_looked_up_before(tmp_path):
    fake_torch(tmp_path)
    code = "import importlib.util as u; print(u.find_spec('torch').name, u.find_spec('torch').name, flush=True); import torch"
    done = python(code, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "torch torch\n")
    assert "this is torch 0.0-fake" in done.stderr


def test_missing_torch_stays_an_import_error(tmp_path):
    code = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\nimport torch"
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    done = python(code)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (1, "")
    assert (
        done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'torch'"
    )
