"""torch.compile on the CPU: generated kernels read addresses, not tensors; their arguments are pinned for the call. Slow: the compiler runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launch import environment, run_command

pytestmark = pytest.mark.slow

PROGRAM = str(Path(__file__).parent / "compiled.py")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Compiled kernels, shared by the runs, so that all but the first find them."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path_factory.mktemp("inductor"))}


@pytest.fixture(scope="module")
def plain(cache):
    done = subprocess.run(
        [sys.executable, PROGRAM], check=True, capture_output=True, text=True, env=environment(**cache)
    )
    return done.stdout


@pytest.mark.parametrize(
    "options", [("--budget", "12MiB"), ("--budget", "unlimited", "--fuzz", "1")], ids=["budget", "fuzz"]
)
def test_compiled_training_has_the_same_bits_and_no_access_outside_its_pins(options, plain, cache, tmp_path):
    stats = tmp_path / "stats.json"
    done = run_command("run", *options, "--stats", stats, "--", sys.executable, PROGRAM, variables=cache)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain
    found = json.loads(stats.read_text())
    assert found["page_outs"] > 0 and found["pins"] == 0
    assert found["faults"] == 0 and found["write_faults"] == 0
    if options[1] != "unlimited":
        assert found["peak_bytes"] <= found["budget_bytes"] < found["need_bytes"]
