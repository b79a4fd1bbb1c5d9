"""Plans that a run makes of itself while it goes on: the program does as it would, and does as planned."""

import json
import sys
from pathlib import Path

import pytest
from launch import STABLE, run_command

PROGRAMS = Path(__file__).parent.parent / "programs"
STEPS = 9
LEARNED = 4  # steps by whose end a plan is in force
MARGIN = 1.15 if STABLE else 1.4  # times the floor, the least budget


def run(program, budget, folder, *options):
    stats = folder / "stats.json"
    command = [sys.executable, PROGRAMS / f"{program}.py", "--steps", STEPS]
    done = run_command("run", "--budget", budget, "--stats", stats, *options, "--", *command)
    assert done.returncode == 0, done.stderr
    return done, json.loads(stats.read_text())


def half_of_its_need(stats):
    return max(stats["need_bytes"] // 2, int(MARGIN * stats["floor_bytes"]))


@pytest.mark.parametrize("program", ["gpt", "unet", "gan", "transformer_encoder"])
def test_program_that_repeats_itself_is_followed_with_the_same_bits(program, tmp_path):
    plain, need = run(program, "unlimited", tmp_path)
    done, stats = run(program, half_of_its_need(need), tmp_path, "--plan-sync")
    assert done.stdout == plain.stdout
    assert stats["plans"] >= 1
    assert stats["followed_ops"] >= 0.9 * (STEPS - LEARNED) * stats["window_ops"]
    settling = 0 if STABLE else 1  # windows: under rebinding blocks come to their places in the first
    assert stats["ops_as_planned"] >= 0.9 * (STEPS - LEARNED - settling) * stats["window_ops"]
    assert stats["failed_actions"] == 0 and stats["over_budget_bytes"] == 0
    assert stats["peak_bytes"] <= stats["budget_bytes"]
    assert stats["predicted_peak_bytes"] <= stats["budget_bytes"]
    assert "tensorpager: planned: windows of" in done.stderr


def test_followed_program_whose_blocks_leave_at_random_has_the_same_bits(tmp_path):
    plain, need = run("gpt", "unlimited", tmp_path)
    done, stats = run("gpt", half_of_its_need(need), tmp_path, "--plan-sync", "--fuzz", 5, "--spill", "ram")
    assert done.stdout == plain.stdout
    assert stats["followed_ops"] >= 0.9 * (STEPS - LEARNED) * stats["window_ops"]
    assert stats["fuzz_page_outs"] > 0 and stats["over_budget_bytes"] == 0


def test_plan_moves_less_in_the_way_of_ops_than_on_demand(tmp_path):
    _, need = run("gpt", "unlimited", tmp_path)
    budget = half_of_its_need(need)
    options = ("--spill", "ram", "--link", "200MB/s")  # slow enough to tell
    _, planned = run("gpt", budget, tmp_path, "--plan-sync", *options)
    done, on_demand = run("gpt", budget, tmp_path, "--on-demand", "--quiet", *options)
    assert on_demand["plans"] == 0 and on_demand["followed_ops"] == 0
    assert done.stderr == ""
    assert planned["stall_seconds"] < on_demand["stall_seconds"]
