"""`tensorpager trace` and `machine`: what they write, what the other verbs make of it, and how they say no."""

import re
import sys

import pytest
from launch import COMMAND, run_command
from marks import needs_emulated_card

PROGRAM = """\
import torch
from training import BATCH, WIDTH, make_model, train
train(make_model(), steps=6)
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The folder of a program's trace, and what the run said."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "program.py").write_text(PROGRAM)
    return folder, run_command("trace", "-o", "step.trace", "--", sys.executable, "program.py", cwd=folder)


def test_line_at_exit_says_what_was_found(traced):
    folder, done = traced
    first, second = done.stderr.splitlines()
    assert done.returncode == 0
    assert first.startswith(f"tensorpager: {folder}/step.trace: 1 class: 4 windows of ") and first.endswith(
        " (written)"
    )
    assert second.startswith("tensorpager: need ") and "budget unlimited" in second


def test_trace_is_planned_validated_and_explained(traced):
    folder, _ = traced
    arguments = ("step.trace", "--budget", "50%", "--machine", "m40-12g", "-o", "step.plan")
    assert run_command("plan", *arguments, cwd=folder).returncode == 0
    assert ": valid: " in run_command("validate", "step.trace", "step.plan", cwd=folder).stdout
    assert "\npeak: " in run_command("report", "step.trace", "step.plan", "-o", "step.svg", cwd=folder).stdout


def test_ops_that_can_run_again_are_marked(traced):
    folder, _ = traced
    marks = {}
    for line in (folder / "step.trace").read_text().splitlines():
        if line.startswith("op "):
            marks.setdefault(line.split()[1], set()).add(
                next((w for w in line.split() if w in ("pure", "scratch")), "")
            )
    assert marks["aten::addmm"] == marks["aten::tanh"] == marks["aten::tanh_backward"] == {"pure"}
    assert marks["aten::addcdiv_"] == {"pure"}
    assert marks["aten::randn.generator"] == {""}


def test_recorded_trace_is_planned_with_replays(traced):
    folder, _ = traced
    planned = ("step.trace", "--budget", "40%", "--machine", "h200-141g", "--planner", "hybrid", "-o", "hybrid.plan")
    assert run_command("plan", *planned, cwd=folder).returncode == 0
    assert "\nreplay " in (folder / "hybrid.plan").read_text()
    assert ": valid: " in run_command("validate", "step.trace", "hybrid.plan", cwd=folder).stdout


def test_two_runs_record_the_same_but_for_times(traced, tmp_path):
    folder, _ = traced
    done = run_command("trace", "-o", tmp_path / "again.trace", "--", sys.executable, "program.py", cwd=folder)
    assert done.returncode == 0

    def without_times(path):
        return [" ".join(w for w in line.split() if not w.startswith("ns=")) for line in path.read_text().splitlines()]

    assert without_times(tmp_path / "again.trace") == without_times(folder / "step.trace")


def test_trace_under_a_budget_is_that_of_a_run_without(traced, tmp_path):
    folder, _ = traced
    arguments = ("-o", tmp_path / "short.trace", "--budget", "1MiB", "--spill", tmp_path)
    done = run_command("trace", *arguments, "--", sys.executable, "program.py", cwd=folder)
    assert done.returncode == 0 and "budget 1.00 MiB" in done.stderr

    def structure(path):
        kept = ("ns=", "temporary=", "slab")
        return [
            [w for w in line.split() if not w.startswith(kept)]
            for line in path.read_text().splitlines()
            if "slab" not in line
        ]

    assert structure(tmp_path / "short.trace") == structure(folder / "step.trace")


def test_only_the_first_process_writes_and_its_exit_code_is_kept(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os\n"
        + PROGRAM
        + "if os.fork() == 0:\n    train(make_model(), steps=2)\nelse:\n    os.wait()\n    raise SystemExit(7)\n"
    )
    done = run_command("trace", "-o", "step.trace", "--", sys.executable, "program.py", cwd=tmp_path)
    assert done.stderr.count("step.trace: 1 class: 4 windows of ") == 1 and done.returncode == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "step.trace"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["trace", "--", "true"], "--output is required"),
        (["trace", "-o", "step.trace"], "no program: write it after --, as in `tensorpager trace -o"),
        (["trace", "-o", "/no/such/step.trace", "--", "true"], "/no/such/step.trace"),
        (["trace", "-o", "step.trace", "--class", "0", "--", "true"], "--class"),
        (["trace", "-o", "step.trace", "--budget", "lots", "--", "true"], "TENSORPAGER_BUDGET: 'lots'"),
        (["machine", "tpu"], "'tpu' is no machine"),
        (["machine", "m40-12g", "--measure"], "not both"),
        (["machine", "-o", "a.machine"], "nothing to write to a.machine"),
        (["machine", "--measure", "--spill", "/no/such"], "/no/such"),
        (["machine", "m40-12g", "--scale", "a.trace", "b.trace"], "write --measure"),
        (["machine", "--measure", "--scale", "/no/such.trace", "b.trace"], "/no/such.trace"),
        (["machine", "--measure", "--scale", "a.trace"], "--scale"),
        (["machine", "m40-12g", "--device", "cuda"], "write --measure"),
        (["machine", "--measure", "--device", "cuda", "--scale", "a.trace", "b.trace"], "--scale"),
        (
            ["machine", "--measure", "--device", "cuda", "--python", sys.executable],
            "torch sees no GPU; try `tensorpager doctor`",
        ),
    ],
)
def test_wrong_usage_is_one_line(tmp_path, arguments, text):
    done = run_command(*arguments, cwd=tmp_path)
    assert done.returncode in (1, 2) and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("tensorpager: ") and text in line


def test_measured_machine_is_one_to_plan_for(traced, tmp_path):
    folder, _ = traced
    done = run_command("machine", "--measure", "--spill", tmp_path, "-o", "here.machine", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "" and "copies in memory" in done.stderr
    arguments = ("--budget", "50%", "--machine", "./here.machine", "-o", "step.plan")
    planned = run_command("plan", folder / "step.trace", *arguments, cwd=tmp_path)
    assert planned.returncode == 0 and "overhead" in planned.stdout


def test_measured_machine_compares_its_ops_with_anothers(traced, tmp_path):
    folder, _ = traced
    trace = (folder / "step.trace").read_text()
    slower = re.sub(r" ns=(\d+)", lambda time: f" ns={2 * int(time[1])}", trace)
    (tmp_path / "here.trace").write_text(slower)
    traces = (folder / "step.trace", "here.trace")
    done = run_command("machine", "--measure", "--spill", "ram", "--scale", *traces, cwd=tmp_path)
    assert done.returncode == 0 and "measured scale=2\n" in done.stdout


@needs_emulated_card
@pytest.mark.stable("nothing is paged")
def test_measured_card_has_the_rates_of_the_card(tmp_path):
    """The clock of an emulated card is made of its machine file, which the measurement must find by events alone.

    The slower the card, the less work takes a while on it, which the CPU computes.
    """
    card = tmp_path / "slow.machine"
    rate = re.compile(r"(float\d+|bfloat16|tf32)=(\S+)")
    text = rate.sub(lambda at: f"{at[1]}={float(at[2]) / 16:.6g}", run_command("machine", "m40-12g").stdout)
    card.write_text(text)

    def numbers(text):
        return {
            f"{record[0]} {key}": float(value)
            for line in text.splitlines()
            if (record := re.match(r"rates \S+|\S+", line))
            for key, value in re.findall(r"(\S+)=(\S+)", line)
        }

    words = ("--", COMMAND, "machine", "--measure", "--device", "cuda", "--python", sys.executable)
    done = run_command("run", "--emulate", card, "--emulate-clock", "card", "--quiet", *words, seconds=200)
    assert done.returncode == 0, done.stderr
    measured, stated = numbers(done.stdout), numbers(text)
    assert measured.pop("link from") == 1 << 26 and stated.pop("link from") == 0
    # An M40 has no kernel for attention in bfloat16; torch's cuDNN has no recurrent layers for it.
    kept = {key for key in stated if re.match(r"rates (recurrent|attention bfloat16)", key)}
    assert measured == pytest.approx({key: value for key, value in stated.items() if key not in kept}, rel=0.05)
    assert "name nvidia-slow-machine-emulated" in done.stdout.splitlines()


def test_named_machines_are_listed_and_printed_as_files(tmp_path):
    listed = run_command("machine").stdout
    assert [line.split()[0] for line in listed.splitlines()] == [
        "m40-12g", "titanx-12g", "v100-16g", "a100-40g", "a100-80g", "h100-80g", "h200-141g", "gh200-96g", "rtx4090-24g", "rtx5090-32g",
    ]  # fmt: skip
    (tmp_path / "a.machine").write_text(run_command("machine", "a100-40g").stdout)
    assert run_command("machine", "./a.machine", cwd=tmp_path).stdout == (tmp_path / "a.machine").read_text()


@pytest.mark.parametrize("verb", ["trace", "machine"])
def test_help_has_an_example(verb):
    done = run_command(verb, "--help")
    assert done.returncode == 0 and f"Example:\n  tensorpager {verb} " in done.stdout
