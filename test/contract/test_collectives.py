"""R4: what a collective touches stays where it is until the collective is done, though its op returned long ago."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launch import environment, run_command

PROGRAM = str(Path(__file__).parent / "ranks.py")
NEED = 25 << 20  # bytes of each rank, about
SHARE = 0.4


def seen(folder):
    return [(folder / str(rank)).read_text() for rank in range(2)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    subprocess.run([sys.executable, PROGRAM, folder], check=True, env=environment(), timeout=120)
    return seen(folder)


@pytest.mark.parametrize(
    "options", [(), ("--fuzz", "1"), ("--fuzz", "2")], ids=lambda options: " ".join(options) or "budget"
)
def test_two_ranks_in_a_part_of_their_need_see_the_same_bits(options, plain, tmp_path):
    stats = tmp_path / "stats.json"
    budget = int(SHARE * NEED)
    done = run_command("run", "--budget", budget, *options, "--stats", stats, "--", sys.executable, PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr
    assert seen(tmp_path) == plain
    ranks = [s for s in (json.loads(path.read_text()) for path in tmp_path.glob("stats.json.*")) if s["ops"] > 0]
    assert len(ranks) == 2
    for rank in ranks:
        assert 0.9 * NEED < rank["need_bytes"] < 1.2 * NEED
        assert rank["page_outs"] > 0 and rank["pins"] == 0
        assert rank["peak_bytes"] <= budget and rank["over_budget_bytes"] == 0
