"""However a program ends, it ends as without a session, plus one line; and no spill file stays."""

import os
import signal
import sys

import pytest
from endings import SETUP, run_to_its_end
from launch import run_command


@pytest.fixture
def run(server, spill, tmp_path):
    """Runs SETUP and a text, and calls `act` with the program in between."""
    return lambda text, act=None: run_to_its_end(server, tmp_path, spill, text, act)


def test_live_tensors_at_the_end_are_no_trouble(run):
    end = run("keep = [model, tensors]; keep.append(keep)")
    assert (end.returncode, end.stdout, end.stderr) == (0, "", [])
    assert end.summary and end.stats["page_outs"] > 0 and end.stats["live_bytes"] > 1 << 20


@pytest.mark.parametrize(
    ("text", "code", "stderr"),
    [
        ("sys.exit(5)", 5, []),
        ("sys.exit('a message')", 1, ["a message"]),
        ("raise SystemExit", 0, []),
        ("sys.exit(256 + 3)", 3, []),
    ],
)
def test_exit_code_is_the_programs_own(run, text, code, stderr):
    end = run(text)
    assert (end.returncode, end.stderr) == (code, stderr)
    assert end.summary and end.stats


def test_uncaught_exception_is_printed_and_the_statistics_are_kept(run):
    end = run("tensors[0] @ tensors[1]")
    assert end.returncode == 1
    assert end.stderr[0].startswith("Traceback") and end.stderr[-1].startswith("RuntimeError: ")
    assert "mat1 and mat2 shapes cannot be multiplied" in end.stderr[-1]  # torch 2.15 names the op before it
    assert end.summary and end.stats


def test_refused_op_that_nobody_catches_ends_the_program_by_name(run):
    end = run("torch.zeros(1 << 20)")
    assert end.returncode == 1
    assert end.stderr[-1].startswith("torch.OutOfMemoryError: Tensorpager: aten::zeros") or end.stderr[-1].startswith(
        "torch.OutOfMemoryError: Tensorpager: aten::empty"
    )
    assert end.summary


def test_exit_handlers_reach_evicted_tensors_whenever_they_were_registered(run):
    text = """
def report(name):
    print(name, [tensor.mean().item() for tensor in tensors] == [*range(20)], tensors[3].tolist()[99][255], flush=True)
atexit.register(report, "late")
"""
    end = run(text)
    assert (end.returncode, end.stdout, end.stderr) == (0, "late True 3.0\n", [])
    assert end.summary


def test_finalizers_at_shutdown_reach_evicted_tensors(run):
    text = """
class Holder:
    def __init__(self): self.tensor = torch.full((100, 256), 4.0)
    def __del__(self): os.write(1, b"%r" % self.tensor.tolist()[99][255])
holder = Holder()
evict()
"""
    end = run(text)
    assert (end.returncode, end.stdout, end.stderr) == (0, "4.0", [])


def test_immediate_exit_says_nothing_and_leaves_nothing(run):
    end = run("os._exit(9)")
    assert (end.returncode, end.stdout, end.stderr, end.summary) == (9, "", [], False)


DAEMONS = """
def work():
    while True: {}
for _ in range(2): threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
sys.exit(6)
"""


@pytest.mark.parametrize(
    "body", ["[tensor.tolist() for tensor in tensors]", "time.sleep(1)", "evict.__globals__['_core'].page_out_all()"]
)
def test_daemon_threads_do_not_disturb_the_end(run, body):
    end = run(DAEMONS.format(body))
    assert (end.returncode, end.stdout, end.stderr) == (6, "", [])
    assert end.summary


@pytest.mark.parametrize("body", ["[tensor.sum() for tensor in tensors]", "train(make_model(), steps=1)"])
def test_daemon_threads_inside_ops_end_as_torch_lets_them(run, body):
    # Python ends a daemon thread by unwinding it; where that meets a noexcept frame of torch's, the process aborts, with us and without.
    end = run(DAEMONS.format(body))
    assert end.returncode in (6, -signal.SIGABRT)
    # "without an active exception", or "recursively" where two threads met such a frame at once
    assert all(line.startswith("terminate called ") for line in end.stderr)
    assert (end.stderr != []) == (end.returncode == -signal.SIGABRT)
    assert end.stats


def test_threads_that_are_waited_for_finish_their_work(run):
    text = """
def work():
    time.sleep(0.05)
    print([tensor.add_(1).mean().item() for tensor in tensors] == [*range(1, 21)], flush=True)
threading.Thread(target=work).start()
"""
    end = run(text)
    assert (end.returncode, end.stdout, end.stderr) == (0, "True\n", [])


TRAINING = "while True: train(model)"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_program_leaves_no_spill_file(run, number):
    end = run(TRAINING, lambda program: os.kill(program.pid, number))
    assert (end.returncode, end.stdout, end.stderr, end.summary) == (-number, "", [], False)


def test_interrupt_arrives_as_ever_and_the_statistics_are_kept(run):
    end = run(TRAINING, lambda program: os.kill(program.pid, signal.SIGINT))
    assert end.returncode == -signal.SIGINT
    assert end.stderr[-1] == "KeyboardInterrupt"
    assert end.summary and end.stats


def test_interrupt_that_is_caught_lets_the_program_go_on(run):
    text = f"""
try:
    {TRAINING}
except KeyboardInterrupt:
    print([tensor.mean().item() for tensor in tensors] == [*range(20)], len(train(model)))
"""
    end = run(text, lambda program: os.kill(program.pid, signal.SIGINT))
    assert (end.returncode, end.stdout, end.stderr) == (0, "True 3\n", [])


def test_real_crash_is_a_crash(run):
    end = run("import ctypes; ctypes.string_at(16)")
    assert (end.returncode, end.stdout, end.stderr, end.summary) == (-signal.SIGSEGV, "", [], False)


def test_program_that_disables_by_itself_keeps_its_statistics(run):
    end = run("import tensorpager; tensorpager.disable(); train(model)")
    assert (end.returncode, end.stderr) == (0, [])
    assert end.summary and end.stats["page_outs"] > 0


def test_statistics_that_cannot_be_written_are_told_and_change_no_exit_code(server, tmp_path):
    program = server.start(tmp_path, "", TENSORPAGER_BUDGET="1GiB", TENSORPAGER_STATS="/nowhere/stats.json")
    end = program.wait()
    assert end.returncode == 0
    assert "cannot write the statistics" in end.stderr and "/nowhere/stats.json" in end.stderr
    assert len(end.stderr.splitlines()) == 2


def test_fresh_process_with_everything_live_ends_cleanly(tmp_path, spill):
    (tmp_path / "program.py").write_text(
        SETUP + "atexit.register(lambda: print(tensors[7].tolist()[9][9]))\nsys.exit(4)"
    )
    done = run_command("run", "--budget", "1MiB", "--spill", spill, "--", sys.executable, tmp_path / "program.py")
    assert (done.returncode, done.stdout) == (4, "ready\n7.0\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("tensorpager: need ")
