"""Programs on the emulated card, each in a process of its own that preloads the fake card before torch is loaded."""

import ctypes
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from launch import HERE, SECONDS, environment, run_command

LIBRARIES = Path(
    os.environ.get("TENSORPAGER_TEST_LIBRARIES") or Path(find_spec("tensorpager").submodule_search_locations[0]) / "lib"
)  # a build folder, to test what is not installed
FAKE_CARD = LIBRARIES / "libtensorpager_fake_cuda.so"
EMULATION = LIBRARIES / "libtensorpager_emulation.so"
DRIVER = LIBRARIES / "fake_cuda" / "libcuda.so.1"
TORCH = tuple(int(part) for part in version("torch").split(".")[:2])
CARD = "name=h100-80g devices={devices} compute=9.0 multiprocessors=132 memory=85520809984"


def run_emulated(program, *arguments, schedule="now", devices=1, seconds=SECONDS, **variables):
    """Runs a program of this folder and returns the JSON that it prints last."""
    variables |= {
        "LD_PRELOAD": f"{FAKE_CARD}:{DRIVER}",
        "TENSORPAGER_EMULATE": "h100-80g",
        "TENSORPAGER_CARD": CARD.format(devices=devices),
        "TENSORPAGER_EMULATE_SEED": schedule,
        "TENSORPAGER_TEST_LIBRARIES": str(LIBRARIES),
    }
    done = subprocess.run(
        [sys.executable, HERE / program, *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def card_of(folder, memory):
    """A machine file of a card that has so many bytes, and is an H100 otherwise."""
    path = folder / f"{memory}.machine"
    machine = run_command("machine", "h100-80g").stdout
    path.write_text(re.sub(r"(multiprocessors=\d+) memory=\d+", rf"\1 memory={memory}", machine))
    return path


class Emulation:
    """In such a process: what the two libraries say. Ops run late from the moment that it is made."""

    def __init__(self):
        self._card, self._ops = ctypes.CDLL(str(FAKE_CARD)), ctypes.CDLL(str(EMULATION))
        self._card.tensorpager_fake_cuda_report.restype = ctypes.c_char_p
        for name in ("unmapped", "synchronous"):
            getattr(self._ops, f"tensorpager_emulation_{name}").restype = ctypes.c_char_p
        self.ops = self._ops.tensorpager_emulation_install()

    def install(self):
        return self._ops.tensorpager_emulation_install()

    def report(self):
        return json.loads(self._card.tensorpager_fake_cuda_report())

    def unmapped(self):
        return self._ops.tensorpager_emulation_unmapped().decode().splitlines()

    def synchronous(self):
        """Op -> why it was waited for."""
        lines = self._ops.tensorpager_emulation_synchronous().decode().splitlines()
        return dict(line.split("\t", 1) for line in lines)

    def clear_error(self):
        self._card.tensorpager_fake_cuda_clear_error()
