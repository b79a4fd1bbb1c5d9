"""A program under a session in a debugger, and with an extension that a sanitizer watches."""

import shutil
import signal
import subprocess
import sys

import pytest
from launch import COMMAND, SECONDS, environment

pytestmark = pytest.mark.slow

PROGRAM = """\
import ctypes, sys, torch
from training import evict, make_model, train
train(make_model())
tensors = [torch.full((100, 256), float(value)) for value in range(20)]
evict()
"""


@pytest.fixture
def program(tmp_path, spill):
    """The command that runs PROGRAM and a text under a session, itself run by `before`."""

    def program(text, *before):
        (tmp_path / "program.py").write_text(PROGRAM + text)
        return [
            COMMAND,
            "run",
            "--budget",
            "1MiB",
            "--spill",
            spill,
            "--",
            *before,
            sys.executable,
            tmp_path / "program.py",
        ]

    return program


def test_gdb_that_passes_the_signal_on_runs_a_program_to_its_end(program):
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not installed")
    debugger = ["gdb", "-q", "-batch", "-ex", "handle SIGSEGV nostop noprint pass", "-ex", "run", "--args"]
    command = program("print([tensor.tolist()[9][9] for tensor in tensors] == [*range(20)])", *debugger)
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=3 * SECONDS)
    assert "\nTrue\n" in done.stdout and "exited normally" in done.stdout
    assert "tensorpager: need " in done.stderr


EXTENSION = """\
#include <cstddef>
#include <cstdlib>
extern "C" double sum(const float* at, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += at[i];
  return sum;
}
extern "C" int overrun() {
  volatile char* at = static_cast<char*>(std::malloc(8));
  return at[8];
}
"""
CALLS = """\
library = ctypes.CDLL(sys.argv[1])
library.sum.restype, library.sum.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_size_t]
print([library.sum(tensor.data_ptr(), tensor.numel()) for tensor in tensors] == [25600.0 * value for value in range(20)], flush=True)
"""


@pytest.mark.parametrize("options", ["detect_leaks=0", "detect_leaks=0:handle_segv=0"])
@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        ("", 0, "tensorpager: need "),
        ("library.overrun()", 1, "heap-buffer-overflow"),
        ("ctypes.string_at(16)", None, ""),
    ],
)
def test_extension_with_address_sanitizer_reads_evicted_tensors_and_finds_its_own_mistakes(
    program, tmp_path, options, last, code, said
):
    (tmp_path / "extension.cpp").write_text(EXTENSION)
    library = tmp_path / "extension.so"
    build = ["g++", "-O1", "-fsanitize=address", "-shared", "-fPIC", "-o", library, tmp_path / "extension.cpp"]
    subprocess.run(build, check=True, timeout=SECONDS)
    runtime = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    preload = ["env", f"LD_PRELOAD={runtime.strip()}", f"ASAN_OPTIONS={options}"]
    command = [*program(CALLS + last, *preload), library]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=3 * SECONDS)
    # A crash is reported by the sanitizer, or by nobody where it does not handle the signal.
    expected = code if code is not None else -signal.SIGSEGV if "handle_segv=0" in options else 1
    assert (done.returncode, done.stdout) == (expected, "True\n") and said in done.stderr
