"""Runs the body of a test in a fork of this process, which has imported torch once and runs no op itself.

A session changes its process for good and torch takes seconds to import: a fork has a process of its own and torch at once.
"""

import os

for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"  # read when torch and numpy are imported; a fork would lose their threads

import gc
import pickle
import resource
import select
import signal
import sys
import tempfile
import traceback

import pytest
import torch
import torch._dynamo  # every optimizer imports it when it is made  # noqa: F401

import tensorpager
from tensorpager import _core

torch.set_num_threads(1)
MEMORY = 4 << 30  # bytes: a test that runs away ends by itself, and not the machine


def run(body, seconds):
    """Calls `body()` in a fork. Raises pytest's failure or skip if it did, and fails if a pin is left afterwards."""
    with tempfile.TemporaryFile() as report:
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # the fork's collections would copy every page that holds an object of ours
        pid = os.fork()
        if pid == 0:
            _child(body, report)
        descriptor = os.pidfd_open(pid)
        timed_out = not select.select([descriptor], [], [], seconds)[0]
        os.close(descriptor)
        _kill_group(pid)  # what the test started and did not end
        exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        report.seek(0)
        text = report.read()
    if timed_out:
        pytest.fail(f"no end after {seconds} s", pytrace=False)
    if not text:
        pytest.fail(f"the fork ended with exit code {exit_code} and no report", pytrace=False)
    kind, message = pickle.loads(text)
    if kind == "skipped":
        pytest.skip(message)
    if kind == "failed":
        pytest.fail(message, pytrace=False)


def _kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _child(body, report):
    """Never returns. Ends by os._exit, so that nothing of the parent's stack is unwound here."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    outcome = ("failed", "")
    try:
        body()
        _check_balance()
        outcome = ("passed", "")
    except pytest.skip.Exception as skip:
        outcome = ("skipped", str(skip))
    except BaseException:
        outcome = ("failed", traceback.format_exc())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        report.write(pickle.dumps(outcome))
        report.flush()
        os._exit(0)


def _check_balance():
    gc.collect()
    if _core.active():
        assert tensorpager.stats()["pins"] == 0
