"""`tensorpager run` and the Python around it: child processes, the import path, the import of torch."""

import json
import re
import socket
import subprocess
import sys

import pytest
from launch import COMMAND, environment, run_command

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


def test_only_the_parent_prints_a_line_and_it_tells_of_the_children(family):
    (line,) = family[1].splitlines()
    assert line.startswith("tensorpager: need ") and "; 3 child processes: need at most " in line
    # The three do the same; what a fork had from its parent is not counted twice.
    page_outs = family[0]["parent"][1]["page_outs"]
    assert re.search(r"(\d+) page-outs", line)[1] == f"{page_outs}"
    assert page_outs < int(re.search(r"peak at most \S+ MiB; (\d+) page-outs", line)[1]) < 4.5 * page_outs


TRAIN = "import torch; from training import make_model, train; train(make_model())"


def start_children(number, own, code=TRAIN):
    """A program that starts so many children at once and runs `own` too."""
    start = f"[subprocess.Popen([sys.executable, '-c', {code!r}]) for _ in range({number})]"
    return f"import subprocess, sys\n{own}\ncodes = [child.wait() for child in {start}]\nassert codes == [0] * {number}"


def run_with_statistics(folder, code):
    """What was printed, and the statistics by file name."""
    options = ["--budget", "1MiB", "--spill", folder, "--stats", folder / "stats.json"]
    done = run_command("run", *options, "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stderr, {path.name: json.loads(path.read_text()) for path in folder.glob("stats.json*")}


def test_children_of_a_launcher_without_torch_do_not_overwrite_each_others_statistics(tmp_path):
    printed, stats = run_with_statistics(tmp_path, start_children(4, own=""))
    assert len(stats) == 4 and "stats.json" in stats
    assert all(one["page_outs"] > 0 for one in stats.values())
    lines = printed.splitlines()
    pids = {line.rpartition("; process ")[2] for line in lines}
    assert len(pids) == 4 and all(line.startswith("tensorpager: need ") for line in lines)
    assert len({name.removeprefix("stats.json.") for name in stats} & pids) == 3


def test_parent_that_only_starts_others_tells_what_these_did(tmp_path):
    printed, stats = run_with_statistics(tmp_path, start_children(2, own="import torch"))
    assert stats.pop("stats.json")["need_bytes"] == 0 and len(stats) == 2
    (line,) = printed.splitlines()
    page_outs = sum(one["page_outs"] for one in stats.values())
    assert line.startswith("tensorpager: budget 1.00 MiB; no tensors in this process; 2 child processes: need at most ")
    assert f"; {page_outs} page-outs " in line


def test_child_that_runs_no_op_is_not_told_of(tmp_path):
    printed, _ = run_with_statistics(tmp_path, start_children(1, own="import torch", code="import torch"))
    assert printed == "tensorpager: budget 1.00 MiB; no tensors in this process\n"


def test_statistics_of_an_earlier_run_are_gone_even_if_this_one_writes_none(tmp_path):
    (tmp_path / "stats.json").write_text("old")
    _, stats = run_with_statistics(tmp_path, "import os, torch; os._exit(0)")
    assert stats == {}


def test_statistics_can_go_to_a_device(tmp_path):
    code = "import torch; torch.ones(9)"
    done = run_command("run", "--budget", "1GiB", "--stats", "/dev/stdout", "--", sys.executable, "-c", code)
    assert json.loads(done.stdout)["ops"] > 0


@pytest.mark.parametrize("own", ["os.closerange(3, 256)", "os.environ['TENSORPAGER_OWNER'] = '1/fd/2'"])
def test_program_that_closes_our_file_ends_as_ever(tmp_path, own):
    code = start_children(1, own="import os, torch\n" + own)
    printed, _ = run_with_statistics(tmp_path, code)
    assert "child process" not in printed


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


def test_each_line_is_one_write_so_that_those_of_several_processes_stay_whole(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # each write is a message
    program = [sys.executable, "-c", TRAIN]
    options = ["--budget", "1MiB", "--spill", tmp_path]
    with ours, theirs:
        done = subprocess.run(
            [COMMAND, "run", *options, "--", *program],
            stderr=theirs,
            env=environment(PYTHONUNBUFFERED="1"),
            timeout=100,
        )
        theirs.close()
        messages = list(iter(lambda: ours.recv(1 << 16), b""))
    assert done.returncode == 0
    assert any(b"need" in message for message in messages), messages
    assert all(message.startswith(b"tensorpager: ") and message.endswith(b"\n") for message in messages), messages
