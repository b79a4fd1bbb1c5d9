"""Signals reach a program under a session as they reach any program, also while it pages; and no spill file stays."""

import os
import signal
import subprocess
import sys
import time

import pytest
from endings import run_to_its_end
from launch import COMMAND, SECONDS, environment, run_command


@pytest.fixture
def run(server, spill, tmp_path):
    """Runs endings.SETUP and a text, and calls `act` with the program in between."""
    return lambda text, act=None: run_to_its_end(server, tmp_path, spill, text, act)


TRAINING = "while True: train(model); evict()"
ALL_THERE = "print([tensor.mean().item() for tensor in tensors] == [*range(20)])"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_signal_that_ends_a_program_is_the_commands_own_and_a_shell_adds_128(number):
    program = ["sh", "-c", f"kill -{number.value} $$"]
    assert run_command("run", "--budget", "1GiB", "--", *program).returncode == -number
    words = f"{COMMAND} run --budget 1GiB -- sh -c 'kill -{number.value} $$'; echo $?"
    shell = subprocess.run(["sh", "-c", words], capture_output=True, text=True, env=environment(), timeout=SECONDS)
    assert shell.stdout == f"{128 + number}\n"


CHILDREN = """\
import os, torch
from training import evict, make_model, train
data = torch.randn(400, 256)
model = make_model()
loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
if __name__ == "__main__":
    while True:
        for number, batch in enumerate(loader):
            train(model, steps=1); evict()
            if number == 3: print("ready", flush=True)
"""


def test_interrupt_of_the_whole_group_ends_program_and_children_and_leaves_no_file(tmp_path, spill):
    (tmp_path / "program.py").write_text(CHILDREN)
    command = [COMMAND, "run", "--budget", "1MiB", "--spill", spill, "--", sys.executable, tmp_path / "program.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = subprocess.Popen(command, start_new_session=True, env=environment(), **pipes)
    assert started.stdout.readline() == "ready\n"
    os.killpg(started.pid, signal.SIGINT)  # as a terminal's Ctrl-C
    _, said = started.communicate(timeout=SECONDS)
    assert started.returncode == -signal.SIGINT and "KeyboardInterrupt" in said
    with pytest.raises(ProcessLookupError):
        os.killpg(started.pid, 0)


def test_timer_that_interrupts_paging_all_the_time_changes_no_bit(run):
    text = (
        """
import signal
plain = train(make_model(), steps=10)
ticks = 0
def tick(*_):
    global ticks
    ticks += 1
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
losses = train(make_model(), steps=10)
signal.setitimer(signal.ITIMER_REAL, 0)
print(losses == plain, ticks > 20)
"""
        + ALL_THERE
    )
    end = run(text)
    assert (end.returncode, end.stdout, end.stderr) == (0, "True True\nTrue\n", [])


def test_handler_of_the_program_may_compute_while_an_op_is_interrupted(run):
    text = """
import signal
from tensorpager import _core
signal.signal(signal.SIGUSR1, lambda *_: print(sum(tensor.sum().item() for tensor in tensors), flush=True))
plain = train(make_model())
signal.raise_signal(signal.SIGUSR1)
while True: train(model); _core.page_out_all()  # not evict(): the handler may page in before it looks
"""

    def act(program):
        program.wait_for("4864000.0\n")
        for _ in range(3):
            os.kill(program.pid, signal.SIGUSR1)
            time.sleep(0.2)
        os.kill(program.pid, signal.SIGTERM)

    end = run(text, act)
    assert (end.returncode, end.stderr) == (-signal.SIGTERM, [])
    assert set(end.stdout.splitlines()) == {"4864000.0"} and len(end.stdout.splitlines()) >= 3


def test_stopped_program_goes_on_when_it_is_continued(run):
    def act(program):
        for _ in range(3):
            os.kill(program.pid, signal.SIGSTOP)
            time.sleep(0.05)
            os.kill(program.pid, signal.SIGCONT)
            time.sleep(0.05)
        os.kill(program.pid, signal.SIGINT)

    end = run(f"try:\n    {TRAINING}\nexcept KeyboardInterrupt:\n    {ALL_THERE}", act)
    assert (end.returncode, end.stdout, end.stderr) == (0, "True\n", [])


def test_hung_program_says_where_it_hangs_and_goes_on(run):
    text = (
        """
import faulthandler, signal
faulthandler.register(signal.SIGUSR1)
faulthandler.dump_traceback_later(0.2)
def hang():
    end = time.monotonic() + 1
    while time.monotonic() < end: [tensor.tolist() for tensor in tensors[:3]]; evict()
    os.kill(os.getpid(), signal.SIGUSR1)
hang()
"""
        + ALL_THERE
    )
    end = run(text)
    assert (end.returncode, end.stdout) == (0, "True\n")
    said = "\n".join(end.stderr)
    assert said.count("Timeout (0:00:00.2") == 1 and said.count("in hang\n") == 2


def test_thread_that_blocks_every_signal_is_served(run):
    text = """
import signal
def work():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    print([tensor.tolist()[99][255] for tensor in tensors] == [*range(20)], flush=True)
    assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])
thread = threading.Thread(target=work)
thread.start()
thread.join()
evict()
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
threading.Thread(target=lambda: print(tensors[5].tolist()[0][0])).start()  # begins with its parent's mask
"""
    end = run(text)
    assert (end.returncode, end.stdout, end.stderr) == (0, "True\n5.0\n", [])


def test_thread_that_inherits_a_mask_from_before_the_session_is_served(server, spill, tmp_path):
    text = """
import signal, threading, torch
import tensorpager
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
tensorpager.enable(budget="1MiB")
from training import evict
tensor = torch.full((100, 256), 3.0)
evict()
print(tensor.tolist()[99][255])
"""
    end = server.start(tmp_path, text, TENSORPAGER_SPILL=spill).wait()
    assert (end.returncode, end.stdout, end.stderr) == (0, "3.0\n", "")


EVERY_HANDLER = """
import signal
seen = []
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
    signal.signal(number, lambda number, frame: seen.append(number))
"""


def test_program_that_handles_every_signal_does_not_take_our_faults(run):
    text = """
print([tensor.tolist()[99][255] for tensor in tensors] == [*range(20)], seen, flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
print(seen == [signal.SIGSEGV], signal.getsignal(signal.SIGSEGV).__name__)
"""
    end = run(EVERY_HANDLER + text)
    assert (end.returncode, end.stdout, end.stderr) == (0, "True []\nTrue <lambda>\n", [])


@pytest.mark.parametrize("action", ["SIG_DFL", "SIG_IGN"])
def test_real_crash_ends_a_program_that_had_no_handler_or_ignored_it(run, action):
    text = f"import ctypes, signal; signal.signal(signal.SIGSEGV, signal.{action}); tensors[4].tolist()\nctypes.string_at(16)"
    end = run(text)
    assert (end.returncode, end.stdout, end.stderr, end.summary) == (-signal.SIGSEGV, "", [], False)


@pytest.mark.slow
def test_real_crash_leaves_a_core_file_that_is_not_of_the_size_of_our_addresses(run, tmp_path):
    if open("/proc/sys/kernel/core_pattern").read() != "core\n":
        pytest.skip("core files go elsewhere on this machine")
    text = f"""
import ctypes, resource
resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
os.chdir({str(tmp_path)!r})
ctypes.string_at(16)
"""
    end = run(text)
    assert end.returncode == -signal.SIGSEGV
    (core,) = tmp_path.glob("core*")
    assert 1 << 20 < core.stat().st_blocks * 512 < 4 << 30
    core.unlink()
