"""Processes that the contract tests start: the command itself, and programs under a session."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
COMMAND = str(Path(sys.executable).with_name("tensorpager"))
SECONDS = 60
BINDING = "TENSORPAGER_BINDING"
STABLE = os.environ.get(BINDING, "stable") == "stable"  # what the tests run under


def environment(**variables):
    """Ours without a session's, so that a test run under `tensorpager run` is no different; but for the binding, which is chosen for all tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TENSORPAGER_") or name == BINDING}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)} | variables


def run_command(*arguments, **options):
    """`tensorpager ARGUMENTS`, in a fresh process; `variables` are added to its environment. Without its remark on a temporary directory in
    RAM, which some machines have, unless `remarks`.
    """
    variables, remarks = options.pop("variables", {}), options.pop("remarks", False)
    seconds = options.pop("seconds", SECONDS)
    options = {"stdin": subprocess.DEVNULL} | options if "input" not in options else options
    done = subprocess.run(
        [COMMAND, *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=seconds,
        **options,
    )
    if not remarks:
        lines = done.stderr.splitlines(keepends=True)
        done.stderr = "".join(line for line in lines if "is in RAM (tmpfs)" not in line)
    return done


@dataclass(frozen=True)
class Ended:
    pid: int
    returncode: int  # minus the signal's number if a signal ended it
    stdout: str
    stderr: str


class Running:
    """A program that the server has started."""

    def __init__(self, server, folder):
        self._server, self._folder = server, folder
        self.pid = server.answer()

    def wait_for(self, text):
        """Until the program has printed it."""
        give_up = time.monotonic() + SECONDS
        while text not in self._read("stdout"):
            assert time.monotonic() < give_up and Path(f"/proc/{self.pid}/stat").exists(), self._read("stderr")
            time.sleep(0.01)

    def wait(self):
        try:
            returncode = self._server.answer()
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            self._server.answer()
            raise
        return Ended(self.pid, returncode, self._read("stdout"), self._read("stderr"))

    def _read(self, name):
        return (self._folder / name).read_text()


class ProgramServer:
    """Starts one program at a time; see program_server.py."""

    def __init__(self, *arguments, seconds=SECONDS, **variables):
        self._seconds = seconds  # for one program
        command = [sys.executable, HERE / "program_server.py", *arguments]
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, env=environment(**variables))
        self._answers = b""

    def answer(self):
        """The next number that the server says."""
        while b"\n" not in self._answers:
            if not select.select([self._server.stdout], [], [], self._seconds)[0]:
                raise TimeoutError(f"no end after {self._seconds} s")
            more = os.read(self._server.stdout.fileno(), 64)
            assert more, "the server of programs has ended"
            self._answers += more
        number, _, self._answers = self._answers.partition(b"\n")
        return int(number)

    def start(self, folder, text, *arguments, path=HERE, **variables):
        """The program `text`, in `folder`, with these environment variables; `path` comes first where it imports from."""
        program = folder / "program.py"
        program.write_text(text)
        request = {
            "program": str(program),
            "arguments": list(arguments),
            "environment": variables,
            "path": str(path),
            "stdin": os.devnull,
        }
        for name in ("stdout", "stderr"):
            (folder / name).write_text("")
            request[name] = str(folder / name)
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        return Running(self, folder)

    def stop(self):
        self._server.stdin.close()
        self._server.wait(SECONDS)
        self._server.stdout.close()


_servers = []  # for as long as we live: each ends when its input is closed


@cache
def python_with_torch(*options):
    """The words that run a program under `tensorpager run OPTIONS`, and under what starts it with the same libraries preloaded: in a fork of a
    server that has imported torch with these, as that takes longer than most programs.
    """
    prepared = run_command("run", *options, "--", "env", "-0")
    assert prepared.returncode == 0, prepared.stderr
    preload = dict(entry.split("=", 1) for entry in prepared.stdout.split("\0") if entry)["LD_PRELOAD"]
    path = Path(tempfile.mkdtemp(prefix="tensorpager-test-")) / "programs"
    server = ProgramServer("at", path, LD_PRELOAD=preload)
    assert server.answer() == 0
    _servers.append(server)
    return (sys.executable, HERE / "forked_python.py", path)


def paged_python():
    return python_with_torch("--budget", "unlimited")


def emulated_python():
    return python_with_torch("--emulate", "h100-80g")
