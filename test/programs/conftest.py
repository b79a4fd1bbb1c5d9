"""One runner process for all selected cases: it works ahead, two at once, while pytest waits for the result it needs next."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parent / "runner.py"


def pytest_configure(config):
    config.addinivalue_line("markers", "e2e: runs whole training programs")
    config.addinivalue_line("markers", "slow: only in the full test run")


class Runner:
    def __init__(self, arguments):
        command = [sys.executable, str(RUNNER), *arguments]
        # A session of its own, so that its end takes the forked children along.
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self._results = {}

    def failures(self, case):
        while case not in self._results:
            line = self._process.stdout.readline()
            if not line:
                return [f"the runner ended with exit code {self._process.wait()} before {case}"]
            result = json.loads(line)
            self._results[result["case"]] = result["failures"]
        return self._results[case]

    def read_all(self):
        return self._process.communicate()[0]

    def stop(self):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="session")
def selected_cases(request, tmp_path_factory):
    chosen = [item.callspec.params["case"] for item in request.session.items if "selected_cases" in item.fixturenames]
    arguments = [argument for case in chosen for argument in ("--case", case)]
    runner = Runner(["--json", "--folder", str(tmp_path_factory.mktemp("programs")), *arguments])
    yield runner
    runner.stop()


@pytest.fixture(scope="session")
def sampled_run(tmp_path_factory):
    """Calls the runner's --growth and returns the outcome."""

    def sample(program, steps, every):
        folder = str(tmp_path_factory.mktemp("growth"))
        runner = Runner(["--growth", program, "--steps", str(steps), "--every", str(every), "--folder", folder])
        try:
            return json.loads(runner.read_all())
        finally:
            runner.stop()

    return sample
