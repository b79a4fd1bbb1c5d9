"""Plans that a run makes of itself while it goes on: the program does as it would, and does as planned."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launch import STABLE, environment, paged_python, run_command
from marks import slow

PROGRAMS = Path(__file__).parent.parent / "programs"
STEPS = 9
LEARNED = 4  # steps by whose end a plan is in force
MARGIN = 1.15 if STABLE else 1.4  # times the floor, the least budget
PLAIN = {}  # what programs without a limit did, of which several tests ask the same


def run(program, budget, folder, *options, steps=STEPS):
    stats = folder / "stats.json"
    command = [*paged_python(), PROGRAMS / f"{program}.py", "--steps", steps]
    if budget == "unlimited" and (program, steps) in PLAIN:
        return PLAIN[program, steps]
    done = run_command("run", "--budget", budget, "--stats", stats, *options, "--", *command)
    assert done.returncode == 0, done.stderr
    found = done, json.loads(stats.read_text())
    if budget == "unlimited":
        PLAIN[program, steps] = found
    return found


def half_of_its_need(stats):
    return max(stats["need_bytes"] // 2, int(MARGIN * stats["floor_bytes"]))


@pytest.mark.parametrize("program", ["gpt", "unet", slow("gan"), slow("transformer_encoder")])
def test_program_that_repeats_itself_is_followed_with_the_same_bits(program, tmp_path):
    plain, need = run(program, "unlimited", tmp_path)
    done, stats = run(program, half_of_its_need(need), tmp_path, "--plan-sync")
    assert done.stdout == plain.stdout
    assert stats["plans"] >= 1
    assert stats["followed_ops"] >= 0.9 * (STEPS - LEARNED) * stats["window_ops"]
    assert stats["ops_as_planned"] >= 0.9 * (STEPS - LEARNED) * stats["window_ops"]
    assert stats["windows_as_planned"] == stats["followed_windows"] >= STEPS - LEARNED - 1, (
        "the first may be learned amid a step"
    )
    assert stats["most_ops_as_planned_in_a_row"] >= 2 * stats["window_ops"]
    assert stats["failed_actions"] == 0 and stats["over_budget_bytes"] == 0
    assert stats["peak_bytes"] <= stats["budget_bytes"]
    assert stats["predicted_peak_bytes"] <= stats["budget_bytes"]
    assert "tensorpager: plan active: step of" in done.stderr


@pytest.mark.parametrize("program", ["accumulation", slow("resnet")])
def test_classes_of_windows_that_take_turns_are_as_planned_at_every_op(program, tmp_path):
    plain, need = run(program, "unlimited", tmp_path, steps=16)
    done, stats = run(program, half_of_its_need(need), tmp_path, "--plan-sync", steps=16)
    assert done.stdout == plain.stdout
    assert "; step of" in done.stderr, "of a second class"
    # Also those of the other classes: they are no row of one class's windows.
    assert stats["most_ops_as_planned_in_a_row"] >= 6 * stats["window_ops"]
    assert stats["followed_windows"] >= 10
    assert stats["windows_as_planned"] == stats["followed_windows"]
    assert stats["failed_actions"] == 0 and stats["over_budget_bytes"] == 0


@pytest.mark.parametrize("program", [slow("padded_batches"), "seq2seq"])
def test_program_of_which_no_two_steps_are_equal_is_followed_with_the_same_bits(program, tmp_path):
    plain, need = run(program, "unlimited", tmp_path, steps=12)
    done, stats = run(program, half_of_its_need(need), tmp_path, "--plan-sync", steps=12)
    assert done.stdout == plain.stdout
    assert "tensorpager: plan active: variable-shape step of about" in done.stderr
    # Since the newest plan; and since the first, with those that were told to no plan while one was made.
    assert stats["followed_share"] >= 0.9
    assert stats["followed_ops"] >= 9 * stats["plan_misses"]
    assert stats["failed_actions"] == 0 and stats["over_budget_bytes"] == 0
    assert stats["peak_bytes"] <= stats["budget_bytes"]


def test_followed_program_whose_blocks_leave_at_random_has_the_same_bits(tmp_path):
    plain, need = run("gpt", "unlimited", tmp_path)
    done, stats = run("gpt", half_of_its_need(need), tmp_path, "--plan-sync", "--fuzz", 5, "--spill", "ram")
    assert done.stdout == plain.stdout
    assert stats["followed_ops"] >= 0.9 * (STEPS - LEARNED) * stats["window_ops"]
    assert stats["fuzz_page_outs"] > 0 and stats["over_budget_bytes"] == 0


def test_later_run_takes_the_plan_that_an_earlier_one_kept(tmp_path):
    plain, need = run("gpt", "unlimited", tmp_path)
    budget, options = half_of_its_need(need), ("--plan-sync", "--plan-cache", tmp_path / "plans")
    first, _ = run("gpt", budget, tmp_path, *options)
    assert "tensorpager: plan active: step of" in first.stderr
    assert len(list((tmp_path / "plans").glob("*.plans"))) >= 1
    later, stats = run("gpt", budget, tmp_path, *options)
    assert "tensorpager: plan from the cache: step of" in later.stderr
    assert later.stdout == first.stdout == plain.stdout
    assert stats["followed_ops"] >= 0.9 * (STEPS - LEARNED) * stats["window_ops"]
    assert stats["failed_actions"] == 0 and stats["over_budget_bytes"] == 0


def test_plan_moves_less_in_the_way_of_ops_than_on_demand(tmp_path):
    _, need = run("gpt", "unlimited", tmp_path)
    budget = half_of_its_need(need)
    options = ("--spill", "ram", "--link", "200MB/s")  # slow enough to tell
    _, planned = run("gpt", budget, tmp_path, "--plan-sync", *options)
    done, on_demand = run("gpt", budget, tmp_path, "--on-demand", "--quiet", *options)
    assert on_demand["plans"] == 0 and on_demand["followed_ops"] == 0
    assert done.stderr == ""
    assert planned["stall_seconds"] < on_demand["stall_seconds"]


def plan_of(program, folder, budget="60%"):
    """A plan of a window of it for so much of its need, made from a trace of a run."""
    trace, plan = folder / f"{program}.trace", folder / f"{program}.plan"
    recorded = run_command("trace", "-o", trace, "--", *paged_python(), PROGRAMS / f"{program}.py", "--steps", STEPS)
    assert recorded.returncode == 0, recorded.stderr
    made = run_command("plan", trace, "--budget", budget, "--machine", "m40-12g", "-o", plan)
    assert made.returncode == 0, made.stderr
    return plan


ENABLED = """
import os, runpy, sys, tensorpager
session = tensorpager.enable(plan=sys.argv[1], quiet=True)
program, stats_file = sys.argv[2], sys.argv[3]
sys.argv = [program, *sys.argv[4:]]
sys.path.insert(0, os.path.dirname(program))
try:
    runpy.run_path(program, run_name="__main__")
finally:
    import json, pathlib
    pathlib.Path(stats_file).write_text(json.dumps(tensorpager.stats()))
"""


def by_option(plan, stats, program):
    return run_command("run", "--plan", plan, "--stats", stats, "--", *program)


def by_environment(plan, stats, program):
    return run_command("run", "--stats", stats, "--", *program, variables={"TENSORPAGER_PLAN": str(plan)})


def by_option_without_limit(plan, stats, program):
    return run_command("run", "--budget", "unlimited", "--plan", plan, "--stats", stats, "--", *program)


def by_python(plan, stats, program):
    executable, file, *options = program
    command = [str(word) for word in (executable, "-c", ENABLED, plan, file, stats, *options)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)


@pytest.mark.skipif(not STABLE, reason="a trace of the stable binding tells temporaries apart")
def test_given_plan_is_followed_from_the_first_window_on_with_the_same_bits(tmp_path):
    plain, need = run("gpt", "unlimited", tmp_path)
    plan = plan_of("gpt", tmp_path)
    stats_file = tmp_path / "given.json"
    command = [sys.executable, PROGRAMS / "gpt.py", "--steps", STEPS]
    for start in (by_option, by_environment, by_option_without_limit, by_python):
        done = start(plan, stats_file, command)
        assert done.returncode == 0, done.stderr
        stats = json.loads(stats_file.read_text())
        assert done.stdout == plain.stdout
        assert ("tensorpager: user-supplied plan: step of" in done.stderr) == (start is not by_python)
        assert stats["plans"] == 1
        assert stats["budget_bytes"] == pytest.approx(0.6 * need["need_bytes"], rel=0.05)
        assert stats["peak_bytes"] <= stats["budget_bytes"] and stats["over_budget_bytes"] == 0
        first = 2  # steps: an optimizer makes its state in the first, and blocks are known from the second on
        assert stats["followed_ops"] >= 0.9 * (STEPS - first) * stats["window_ops"]
        assert stats["ops_as_planned"] >= 0.9 * (STEPS - first - 1) * stats["window_ops"]
        assert stats["most_ops_as_planned_in_a_row"] >= 2 * stats["window_ops"]


def test_plan_of_another_program_is_let_go_and_one_of_this_program_made(tmp_path):
    steps = 16
    plain, need = run("gpt", "unlimited", tmp_path, steps=steps)
    plan = plan_of("resnet", tmp_path, "30%")  # for less than this program needs
    command = [sys.executable, PROGRAMS / "gpt.py", "--steps", steps]
    stats_file = tmp_path / "given.json"
    done = run_command("run", "--plan", plan, "--stats", stats_file, "--plan-sync", "--", *command)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    said = [line.removeprefix("tensorpager: ").split(":")[0] for line in done.stderr.splitlines()]
    assert said[:3] == ["user-supplied plan", "plan dropped", "plan active"]
    stats = json.loads(stats_file.read_text())
    assert stats["budget_bytes"] < need["need_bytes"]
    assert stats["plans"] >= 2
    # The given plan expects none of these ops: all that are followed, and whole windows of them, are of later ones. The first
    # steps go to the given plan and to recording. `followed_share` would be of the newest plan only, which may be just made.
    assert stats["followed_ops"] >= 0.8 * stats["window_ops"] * (steps - 4)
    assert stats["followed_windows"] >= steps // 2
    assert stats["plan_misses"] <= stats["followed_ops"] / 2, "nothing is told to a plan that was let go"
    assert stats["over_budget_bytes"] == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--plan", "{folder}/none.plan"], "none.trace"),
        (["--plan", "{plan}", "--budget", "1MiB"], "made for a budget of"),
        (["--plan", "{plan}", "--on-demand"], "contradict"),
        (["--plan", "{plan}:{plan}"], "boundary table"),
        (["--plan", "{folder}/broken.plan"], "broken.plan"),
    ],
)
def test_plan_that_cannot_be_followed_is_told_before_the_program_starts(arguments, words, tmp_path):
    data = Path(__file__).parent.parent / "data" / "recorded"
    trace = tmp_path / "gpt.trace"
    trace.write_bytes((data / "gpt.trace").read_bytes())
    plan = tmp_path / "gpt.plan"
    made = run_command("plan", trace, "--budget", "60%", "--machine", "m40-12g", "-o", plan)
    assert made.returncode == 0, made.stderr
    (tmp_path / "broken.trace").write_bytes(trace.read_bytes())
    (tmp_path / "broken.plan").write_text("\n".join(plan.read_text().splitlines()[:5]))
    filled = [word.format(folder=tmp_path, plan=plan) for word in arguments]
    done = run_command("run", *filled, "--", "true")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
