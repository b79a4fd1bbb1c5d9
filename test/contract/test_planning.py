"""`tensorpager plan`, `validate`, `simulate` and `report`: what they print, and how they say no."""

import json
import re
from pathlib import Path

import pytest
from launch import run_command

DATA = Path(__file__).parents[1] / "data"
RESNET = DATA / "resnet50.trace"
MACHINE = ("--machine", "m40-12g")
KEYS = (
    "fits short_bytes short_op budget_bytes need_bytes floor_bytes peak_bytes step_seconds overhead lower_bound_overhead recompute_seconds"
    " stall_seconds page_out_bytes page_in_bytes host_bytes placement_waste caching_waste"
).split()

# a and b do not fit in 100 KiB beside c: a leaves after op 0 and is back for op 4.
TRACE = """\
tensorpager-trace 1
granule 4096
storage 0 bytes=40960
storage 1 bytes=40960
storage 2 bytes=40960
op a births=0 ns=10000
op b births=1 ns=10000
op c births=2 deaths=2 ns=10000
op d reads=1 deaths=1 ns=10000
op e reads=0 deaths=0 ns=10000
end
"""
SMALL_MACHINE = """\
tensorpager-machine 1
name small
link out bytes_per_second=4096e6
link in bytes_per_second=4096e6
end
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "step.trace").write_text(TRACE)
    (tmp_path / "small.machine").write_text(SMALL_MACHINE)
    return tmp_path


def no_output_but_one_line(done, code):
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("tensorpager: ")
    return line


def test_plan_that_recomputes_is_validated_simulated_and_explained(tmp_path):
    plan = tmp_path / "step.plan"
    planned = ("--machine", "h200-141g", "--budget", "75%")
    made = run_command("plan", RESNET, *planned, "--planner", "hybrid", "-o", plan)
    assert made.returncode == 0 and ", recomputed 0.0" in made.stdout
    replays = plan.read_text().count("\nreplay op=")
    assert replays > 3
    checked = run_command("validate", RESNET, plan)
    assert (checked.returncode, checked.stderr) == (0, "")
    simulated = run_command("simulate", RESNET, "--plan", plan, "--machine", "h200-141g", "--json")
    hybrid = json.loads(simulated.stdout)
    paged = json.loads(run_command("simulate", RESNET, *planned, "--json").stdout)
    assert 0 < hybrid["recompute_seconds"] < hybrid["step_seconds"] / 10
    assert paged["recompute_seconds"] == 0
    assert 10 * hybrid["overhead"] < paged["overhead"]
    told = run_command("report", RESNET, plan, "-o", tmp_path / "step.svg")
    assert f"{replays} replays" in told.stdout

    broken = tmp_path / "broken.plan"
    broken.write_text(re.sub(r"^replay op=\d+", "replay op=0", plan.read_text(), count=1, flags=re.M))
    line = no_output_but_one_line(run_command("report", RESNET, broken), 1)
    assert "replay 0 (of op 0 before op " in line and "): op 0 (empty) is not pure" in line


def test_plan_is_validated_simulated_and_explained(tmp_path):
    plan = tmp_path / "step.plan"
    made = run_command("plan", RESNET, "--budget", "50%", *MACHINE, "-o", plan)
    assert made.returncode == 0 and "overhead" in made.stdout
    checked = run_command("validate", RESNET, plan)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert ": valid: " in checked.stdout
    shown = run_command("simulate", RESNET, "--plan", plan, *MACHINE, "--json")
    predicted = dict(word.split("=") for word in plan.read_text().splitlines()[-2].split()[1:])
    figures = json.loads(shown.stdout)
    assert list(figures) == KEYS
    assert figures["step_seconds"] == pytest.approx(int(predicted["step_ns"]) / 1e9, abs=0)
    assert figures["peak_bytes"] == int(predicted["peak"])
    explained = run_command("report", RESNET, plan, "-o", tmp_path / "step.svg")
    assert "\npeak: " in explained.stdout and "\nmost expensive evictions, of " in explained.stdout
    assert (tmp_path / "step.svg").read_text().endswith("</svg>\n")


def test_simulate_agrees_with_what_a_person_works_out(small):
    """Nothing waits: 0 goes from 10 to 20 us, and is back long before op e."""
    arguments = (
        "step.trace",
        "--budget",
        "80KiB",
        "--machine",
        "./small.machine",
        "--reserve",
        "0",
        "--json",
        "--curve",
    )
    figures = json.loads(run_command("simulate", *arguments, cwd=small).stdout)
    assert figures["step_seconds"] == 50e-6 and figures["overhead"] == 0
    assert [figures[name] for name in ("budget_bytes", "need_bytes", "floor_bytes")] == [81920, 122880, 40960]
    assert (figures["page_out_bytes"], figures["page_in_bytes"]) == (40960, 40960)
    assert figures["peak_bytes"] == 81920
    assert list(figures) == [*KEYS, "curve", "op_starts"]
    assert figures["curve"] == [40960, 81920, 81920, 81920, 40960]
    assert figures["op_starts"] == [0, 10e-6, 20e-6, 30e-6, 40e-6]


@pytest.mark.parametrize("budget", ["90%", "50%", "25%"])
def test_json_keeps_its_promises(budget):
    figures = json.loads(run_command("simulate", RESNET, "--budget", budget, *MACHINE, "--json").stdout)
    assert list(figures) == KEYS
    assert figures["fits"] is True and figures["short_bytes"] == 0 and figures["short_op"] is None
    assert figures["peak_bytes"] <= figures["need_bytes"] * int(budget[:-1]) // 100
    assert figures["lower_bound_overhead"] <= figures["overhead"]
    assert figures["floor_bytes"] < figures["peak_bytes"]


def test_budget_that_cannot_be_kept_is_told_with_bytes_op_and_advice(small):
    arguments = ("step.trace", "--budget", "36KiB", "--machine", "small.machine")
    line = no_output_but_one_line(run_command("simulate", *arguments, cwd=small), 1)
    assert "step.trace: does not fit in 36.0 KiB: 4096 bytes short at op 0 (a)" in line
    assert "the floor is 40960 and the need 122880 bytes; try a larger --budget" in line
    done = run_command("simulate", *arguments, "--json", cwd=small)
    figures = json.loads(done.stdout)
    assert done.returncode == 1 and list(figures) == KEYS
    assert (figures["fits"], figures["short_bytes"], figures["short_op"]) == (False, 4096, 0)
    assert figures["step_seconds"] is None
    assert not (small / "no.plan").exists()
    assert run_command("plan", *arguments, "-o", "no.plan", cwd=small).returncode == 1
    assert not (small / "no.plan").exists()


def test_changed_plan_is_not_valid(small):
    plan = small / "step.plan"
    arguments = ("--budget", "80KiB", "--machine", "small.machine", "-o", plan)
    assert run_command("plan", "step.trace", *arguments, cwd=small).returncode == 0
    plan.write_text(re.sub(" wait=[0-9]+", "", plan.read_text().replace("leave=page_out", "leave=drop")))
    done = run_command("validate", "step.trace", plan, cwd=small)
    assert done.returncode == 1
    assert "is dropped, and its bytes are nowhere else" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"tensorpager: {plan}: is no plan for this trace: op 0 (a): storage 0 is dropped")
    other = run_command("simulate", RESNET, "--plan", plan, *MACHINE)
    assert no_output_but_one_line(other, 1).endswith("the plan is for 5 ops and the trace has 948")


# Two classes of windows over three weights, of which two fit.
def class_of(ops):
    storages = "".join(f"storage {i} bytes=65536 entry identity={i}\n" for i in range(3))
    return f"tensorpager-trace 1\ngranule 4096\n{storages}{ops}end\n"


TRAIN = class_of("op a reads=0 ns=90000\nop b reads=1 writes=1 ns=90000\nop c reads=2 ns=90000\n")
EVALUATE = class_of("op d reads=0 ns=90000\nop e reads=2 ns=90000\n")


def test_classes_are_planned_with_one_boundary_table(small):
    (small / "train.trace").write_text(TRAIN)
    (small / "evaluate.trace").write_text(EVALUATE)
    arguments = ("--budget", "136KiB", "--machine", "small.machine")
    classes = ("-o", "train.plan", "--also", "evaluate.trace", "evaluate.plan", "--boundary-out", "both.boundary")
    made = run_command("plan", "train.trace", *arguments, *classes, cwd=small)
    assert made.returncode == 0, made.stderr
    assert [line.split(":")[0] for line in made.stdout.splitlines()] == ["train.plan", "evaluate.plan"]
    table = (small / "both.boundary").read_text().splitlines()
    assert table[0] == "tensorpager-boundary 1" and table[1].endswith("bytes=65536 offset=0") and len(table) > 2
    for name in ("train", "evaluate"):
        files = (f"{name}.trace", f"{name}.plan", "--boundary", "both.boundary")
        assert run_command("validate", *files, cwd=small).returncode == 0
    again = ("plan", "evaluate.trace", *arguments, "--boundary", "both.boundary", "-o", "again.plan")
    assert run_command(*again, cwd=small).returncode == 0
    assert (small / "again.plan").read_text() == (small / "evaluate.plan").read_text()
    (small / "both.boundary").write_text("tensorpager-boundary 1\nend\n")
    done = run_command("validate", "train.trace", "train.plan", "--boundary", "both.boundary", cwd=small)
    assert done.returncode == 1 and "comes from the boundary and is not in the table" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["simulate", "none.trace", "--budget", "1GiB", *MACHINE], "none.trace: cannot be read (No such file"),
        (["simulate", RESNET, "--budget", "lots", *MACHINE], "--budget: 'lots' is not a size"),
        (["simulate", RESNET, *MACHINE], "write --budget SIZE, or --plan FILE"),
        (["simulate", RESNET, "--budget", "50%", "--machine", "tpu"], "'tpu' is no machine; write a file of one, or"),
        (
            ["simulate", RESNET, "--budget", "50%", *MACHINE, "--planner", "magic"],
            "'magic' is no planner; write one of",
        ),
        (["simulate", RESNET, "--budget", "50%"], "--machine"),
        (["simulate", RESNET, "--budget", "50%", *MACHINE, "--link-share", "0"], "--link-share"),
        (["validate", RESNET, RESNET], "resnet50.trace:1: header: this is no tensorpager-plan file"),
        (["validate", DATA / "README.md", RESNET], "README.md:1: header: this is no tensorpager-trace file"),
        (["plan", RESNET, "--budget", "50%", *MACHINE], "--output"),
        (
            ["plan", RESNET, "--budget", "50%", *MACHINE, "-o", "x", "--planner", "lru", "--boundary-out", "y"],
            "leave out --planner",
        ),
        (
            ["plan", RESNET, "--budget", "50%", *MACHINE, "-o", "x", "--boundary", RESNET],
            "resnet50.trace:1: header: this is no tensorpager-boundary file",
        ),
    ],
)
def test_wrong_usage_is_one_line(arguments, text):
    assert text in no_output_but_one_line(run_command(*arguments), 2)


@pytest.mark.parametrize("verb", ["plan", "validate", "simulate", "report"])
def test_help_has_an_example(verb):
    done = run_command(verb, "--help")
    assert done.returncode == 0 and f"Example:\n  tensorpager {verb} step.trace" in done.stdout
