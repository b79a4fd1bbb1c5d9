"""How tests call the programs of examples/."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("tensorpager")


def call(*words, seconds=300, **more):
    """What it prints. None of our variables is set but those of `more`."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TENSORPAGER_")}
    variables.pop("LD_LIBRARY_PATH", None)
    words = [str(word) for word in words]
    done = subprocess.run(words, env=variables | more, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
