"""`tensorpager fit`: the batches that it names are those of real runs, and what it cannot answer it says."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from emulated import card_of
from launch import COMMAND, emulated_python, environment, paged_python, run_command
from marks import needs_emulated_card

PROGRAMS = Path(__file__).parents[2] / "test" / "programs"
MIB = 1 << 20
pytestmark = pytest.mark.stable("a dry run holds no bytes, and has the stable binding")
LAPTOP = """tensorpager-machine 1
name laptop
memory 25769803776
measured scale=1
ops bytes_per_second=1e10 launch_ns=2000 float32=5e10
link out from=0 latency_ns=20000 bytes_per_second=1e9
link in from=0 latency_ns=20000 bytes_per_second=1e9
end
"""


def program(name, *options):
    python = emulated_python() if "cuda" in options else paged_python()
    return "--", *python, PROGRAMS / f"{name}.py", *options


def fit(*words):
    done = run_command("fit", "--json", *words, seconds=400)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_order(found):
    """Sizes grow with the overhead that is allowed, none exceeds it, and the dry run at the end agrees."""
    sizes = [found["unpaged"]["size"], *(row["largest"]["size"] for row in found["within"]), found["largest"]["size"]]
    assert sizes == sorted(sizes)
    assert all(row["largest"]["overhead"] <= row["overhead"] for row in found["within"])
    assert found["quickest"]["overhead"] <= found["quickest_within"]
    assert found["as_scaled"] and found["checked"].startswith("checked: a dry run at batch ")


@needs_emulated_card
def test_ranks_average_gradients_behind_the_backward_pass(tmp_path):
    picture = tmp_path / "fit.html"
    card = card_of(tmp_path, 768 * MIB)
    options = ("--ranks", "8", "--interconnect", "10GB/s", "--learning-rate", "0.2@64", "-o", picture)
    words = program("gpt", "--device", "cuda", "--batch", "{batch}")
    alone = fit("--machine", card, "--to", "32", *words)  # of it the budget counts, which no size changes
    found = fit("--machine", card, *options, *words)
    ranks = found["data_parallel"]
    assert alone["data_parallel"] is None and alone["learning_rate"] is None
    # Buckets take as many bytes as the gradients.
    assert found["budget_bytes"] == alone["budget_bytes"] - ranks["gradient_bytes"]
    assert 0 < ranks["exposed_seconds"] <= ranks["transfer_seconds"]
    assert ranks["step_seconds"] == pytest.approx(found["quickest"]["step_seconds"] + ranks["exposed_seconds"])
    assert ranks["per_second"] == pytest.approx(8 * found["quickest"]["size"] / ranks["step_seconds"])
    samples = found["learning_rate"]["samples"]
    assert samples == 8 * found["quickest"]["size"]
    assert found["learning_rate"]["linear"] == pytest.approx(0.2 * samples / 64)
    assert found["learning_rate"]["square_root"] == pytest.approx(0.2 * (samples / 64) ** 0.5)
    page = picture.read_text()
    assert page.count("<circle") >= len(found["tried"]) and page.count("<tr>") == 1 + len(found["tried"])
    assert f"<td>{found['quickest']['size']}</td>" in page


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (("--learning-rate", "0.1"), "--learning-rate '0.1': write the rate that is good for a size, as 0.1@256"),
        (("--learning-rate", "0@256"), "--learning-rate '0@256'"),
        (("--learning-rate", "0.1@-8"), "--learning-rate '0.1@-8'"),
        (("--ranks", "8", "--interconnect", "fast"), "fast"),
        (
            ("--ranks", "8", "--interconnect", "10GB/s/20GB/s"),
            "--interconnect '10GB/s/20GB/s': write one rate, as 25GB/s",
        ),
        (("-o", "fit.png"), "'fit.png' ends neither with .svg nor with .html"),
    ],
)
def test_wrong_option_is_refused_before_the_program_runs(option, text):
    done = run_command("fit", "--machine", "h100-80g", *option, "--", "no_such_program", "{batch}")
    assert done.returncode == 2
    assert text in done.stderr and "dry run" not in done.stderr


@needs_emulated_card
def test_largest_batches_on_a_card_are_those_of_real_runs(tmp_path):
    room = 256 * MIB
    context = 512 * MIB  # what CUDA itself takes
    found = fit(
        "--machine", card_of(tmp_path, room + context), *program("gpt", "--device", "cuda", "--batch", "{batch}")
    )
    check_order(found)
    assert found["budget_bytes"] == room

    def run(batch, card="h100-80g"):
        stats = tmp_path / "stats.json"
        options = ["--emulate", card, "--stats", stats]
        done = run_command(
            "run", *options, *program("gpt", "--device", "cuda", "--steps", 3, "--batch", batch), seconds=200
        )
        emulation = json.loads(stats.read_text())["emulation"]
        return done, emulation["max_allocated_bytes"], emulation["max_reserved_bytes"]

    largest = found["unpaged"]["size"]
    assert run(largest)[1] <= room < run(largest + 1)[1]
    # Plain torch's allocator frees what it holds before it fails, so that a few more may fit than it reserves for.
    assert found["plain"] <= largest and found["plain_confirmed"]
    assert run(found["plain"])[2] == found["plain_reserved_bytes"] <= room < run(found["plain"] + 1)[2]
    tight = card_of(tmp_path, room)
    assert run(found["plain"], tight)[0].returncode == 0
    too_many, *_ = run(round(found["plain"] * 1.1), tight)
    assert too_many.returncode != 0 and "torch.OutOfMemoryError" in too_many.stderr


# Batches of the second are made by ops on small tensors, as many as there are samples, so that steps differ in these. A
# machine file without rates takes the times of real steps.
@pytest.mark.parametrize(
    "name, budget, machine",
    [
        ("resnet", 100 * MIB, LAPTOP),
        ("gpt", 24 * MIB, re.sub("ops .*\n", "", LAPTOP)),
    ],
    ids=["resnet", "gpt"],
)
def test_largest_batch_on_the_cpu_is_that_of_real_runs(name, budget, machine, tmp_path):
    laptop, stats = tmp_path / "laptop.machine", tmp_path / "stats.json"
    laptop.write_text(machine)
    options = ["--machine", laptop, "--budget", budget]
    found = fit(*options, *program(name, "--steps", 6, "--batch", "{batch}"))
    check_order(found)
    assert found["timed"] == ("ops " not in machine) == bool(found["measured"])
    if found["timed"]:
        quickest = max(found["measured"], key=lambda one: one["per_second"])
        assert found["quickest"]["size"] == quickest["size"]
        sizes = [one["size"] for one in found["measured"]]
        # Below the smallest of up to five come those that are tried because the smallest is the quickest.
        smaller = [size for size, next_size in zip(sizes, sizes[1:]) if size == next_size * 4 // 5]
        assert len(sizes) - len(smaller) <= 5 and len(smaller) <= 3
    assert (
        found["plain"] is None and found["plain_reserved_bytes"] is None
    )  # torch's allocator for the CPU reserves nothing

    def need(batch):
        options = ["--budget", "unlimited", "--stats", stats]
        assert run_command("run", *options, *program(name, "--steps", 3, "--batch", batch)).returncode == 0
        return json.loads(stats.read_text())["need_bytes"]

    largest = found["unpaged"]["size"]
    assert need(largest) <= budget < need(largest + 1)


def test_small_batch_is_as_scaled_though_small_storages_count_for_much(tmp_path):
    laptop = tmp_path / "laptop.machine"
    laptop.write_text(LAPTOP)
    found = fit(
        *("--machine", laptop, "--budget", 18 * MIB, "--overhead", 0),
        *program("gpt", "--steps", 3, "--batch", "{batch}"),
    )
    check_order(found)
    assert found["quickest"]["size"] < min(found["traced_sizes"]) / 8


ATTENTION = """
import sys, torch
from torch import nn

length = int(sys.argv[1])
layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
optimizer = torch.optim.SGD(layers.parameters(), 0.1)
x = torch.ones(2, length, 64)
for _ in range(8):
    optimizer.zero_grad()
    hidden = x
    for layer in layers:
        hidden = torch.softmax(layer(hidden) @ hidden.transpose(1, 2), -1) @ hidden
    hidden.sum().backward()
    optimizer.step()
"""


def test_a_length_whose_square_counts_is_found_from_three_traces(tmp_path):
    laptop, script, stats = tmp_path / "laptop.machine", tmp_path / "attention.py", tmp_path / "stats.json"
    laptop.write_text(LAPTOP)
    script.write_text(ATTENTION)
    words = ("--machine", laptop, "--budget", 64 * MIB, "--from", 64)
    found = fit(*words, "--", *paged_python(), script, "{length}")
    assert found["as_scaled"] and found["varied"] == "length" and len(found["traced_sizes"]) > 2

    def need(length):
        done = run_command("run", "--budget", "unlimited", "--stats", stats, "--", *paged_python(), script, length)
        assert done.returncode == 0, done.stderr
        return json.loads(stats.read_text())["need_bytes"]

    largest = found["unpaged"]["size"]
    slab = 64 << 10  # a chunk for small storages, which a real run takes whole
    assert need(largest) - slab <= 64 * MIB < need(largest + 1)
    bounded = fit(*words, "--to", 200, "--", *paged_python(), script, "{length}")
    assert bounded["unpaged"]["size"] == bounded["largest"]["size"] == 200


# A linear model of 64 weights that never learns: targets are x times a vector of length 1, plus noise of variance 1. The gradient of a sample
# is -y x, whose mean has length 1, and whose covariance has the trace 65 + 64.
REGRESSION = """
import sys, torch
torch.manual_seed(0)
ways, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
weights = [torch.nn.Parameter(torch.zeros(n)) for n in (16, 48)]
optimizers = [torch.optim.SGD(some, lr=0.0) for some in ([[w] for w in weights] if ways == "each" else [weights])]
truth = torch.ones(64) / 8
for step in range(steps):
    x = torch.randn(batch, 64)
    y = x @ truth + torch.randn(batch)
    loss = ((x @ torch.cat(weights) - y) ** 2).mean() / 2
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
"""


@pytest.mark.parametrize("optimizers", ["one", "each"])
def test_noise_scale_of_gradients_is_the_known_one(optimizers, tmp_path):
    program, laptop = tmp_path / "regression.py", tmp_path / "laptop.machine"
    program.write_text(REGRESSION)
    laptop.write_text(LAPTOP)
    options = ("--machine", laptop, "--budget", 100 * MIB, "--from", 64, "--to", 100_000, "--steps", 200)
    found = fit(*options, "--learning-rate", "0.1@129", "--", *paged_python(), program, optimizers, "{batch}", 1000)
    noise, rate = found["gradient_noise_scale"], found["learning_rate"]
    assert noise["steps"] == 200
    assert noise["samples"] == pytest.approx(129, rel=0.15)
    assert noise["low"] < noise["samples"] < noise["high"]
    # For many samples twice what is best for as many as the noise scale.
    assert rate["by_noise"] == pytest.approx(0.2, rel=0.1)


def test_program_of_too_few_steps_has_no_noise_scale(tmp_path):
    program, laptop = tmp_path / "regression.py", tmp_path / "laptop.machine"
    program.write_text(REGRESSION)
    laptop.write_text(LAPTOP)
    options = ("--machine", laptop, "--budget", 100 * MIB, "--from", 64, "--to", 1000, "--steps", 8)
    # Not in a fork: two steps repeat only with the tensors that torch makes when the first optimizer has it import more.
    done = run_command("fit", *options, "--", sys.executable, program, "one", "{batch}", 2, seconds=200)
    assert done.returncode != 0
    assert "no gradient noise scale: the program ended with exit code 0 after 2 steps" in done.stderr


def test_gradients_that_are_not_finite_are_said_so(tmp_path):
    program, laptop = tmp_path / "regression.py", tmp_path / "laptop.machine"
    program.write_text(REGRESSION.replace(".mean() / 2", ".mean() * float('nan')"))
    laptop.write_text(LAPTOP)
    options = ("--machine", laptop, "--budget", 100 * MIB, "--from", 64, "--to", 1000, "--steps", 4)
    done = run_command("fit", *options, "--", *paged_python(), program, "one", "{batch}", 100, seconds=200)
    assert done.returncode == 1
    assert "tensorpager: no gradient noise scale: some gradients are not finite" in done.stderr


@needs_emulated_card
def test_the_screen_says_what_is_done_and_what_was_found():
    done = run_command(
        "fit", "--machine", "h100-80g", *program("resnet", "--device", "cuda", "--batch={batch}"), seconds=200
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("batch on h100-80g, 78.6 GiB for tensors (simulated")
    for words in (
        "plain PyTorch",
        "without paging",
        "at 3 %",
        "at 50 %",
        "at any cost",
        "most within 10 %",
        "checked:",
    ):
        assert any(line.strip().startswith(words) for line in lines), words
    assert done.stderr.splitlines()[0] == "tensorpager: dry run at batch 16"


@pytest.mark.parametrize(
    "words, message",
    [
        (("--machine", "h100-80g"), "no program"),
        (("--machine", "h100-80g", "--", "python", "train.py"), "nothing to vary: write {batch}"),
        (("--machine", "h100-80g", "--", "python", "{batch}", "{seq}"), "{batch} and {seq} in the program"),
        (("--machine", "tpu", "--", "python", "{batch}"), "'tpu' is no machine"),
        (
            ("--machine", "16xh100-80g", "--", "python", "{batch}"),
            "1 to 8 cards can be emulated, not 16; write 8xh100-80g",
        ),
        (("--machine", "LAPTOP", "--", "python", "{batch}"), "no budget: write --budget SIZE"),
        (("--machine", "h100-80g", "--to", "31", "--", "python", "{batch}"), "--to 31 is less than twice --from 16"),
        (("--machine", "LAPTOP", "--budget", "1GiB", "--from", "0", "--", "python", "{batch}"), "--from"),
    ],
)
def test_wrong_usage_is_told_in_one_line(words, message, tmp_path):
    (tmp_path / "laptop.machine").write_text(LAPTOP)
    done = run_command("fit", *(tmp_path / "laptop.machine" if word == "LAPTOP" else word for word in words))
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_program_whose_steps_differ_has_no_answer(tmp_path):
    laptop, script = tmp_path / "laptop.machine", tmp_path / "train.py"
    laptop.write_text(LAPTOP)
    # One layer more for each factor of two.
    script.write_text(
        "import sys, torch\n"
        "batch = int(sys.argv[1])\n"
        "model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(batch.bit_length())])\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(8):\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.ones(batch, 64)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    options = ["--machine", laptop, "--budget", "1GiB", "--from", 2]
    done = run_command("fit", *options, "--", *paged_python(), script, "{batch}", seconds=200)
    assert done.returncode == 1 and done.stdout == ""
    message = done.stderr.splitlines()[-1]
    assert "no answer: the steps of the program at batch 16 and 32 differ: " in message and "--from" in message


def test_bytes_that_are_no_utf_8_are_replaced_in_json(tmp_path):
    laptop, script = tmp_path / "laptop.machine", tmp_path / "train.py"
    laptop.write_text(LAPTOP)
    script.write_text(
        "import sys, torch\n"
        "batch = int(sys.argv[1])\n"
        "if batch > 256:\n"
        "    sys.stdout.buffer.write(b'no caf\\xe9\\n')\n"
        "    sys.exit(3)\n"
        "model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(8):\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.ones(batch, 64)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    options = ("--machine", laptop, "--budget", "1GiB", "--from", 128, "--to", 1000)
    found = fit(*options, "--", *paged_python(), script, "{batch}")
    assert found["checked"].startswith("NOT checked: at batch 1000 ") and "no caf\ufffd" in found["checked"]


def test_interrupt_leaves_no_temporary_directory(tmp_path):
    laptop, folder = tmp_path / "laptop.machine", tmp_path / "temporary"
    laptop.write_text(LAPTOP)
    folder.mkdir()

    def wait_until(condition):
        give_up = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < give_up
            time.sleep(0.02)

    words = [COMMAND, "fit", "--machine", laptop, "--budget", "1GiB", "--from", "50", "--", "sleep", "{seconds}"]
    variables = {"TMPDIR": str(folder), "TENSORPAGER_SPILL": "ram"}
    options = {"stderr": subprocess.DEVNULL, "start_new_session": True}
    with subprocess.Popen(words, env=environment(**variables), **options) as running:
        try:
            wait_until(lambda: list(folder.glob("tensorpager-*/50.log")))
        finally:
            os.killpg(running.pid, signal.SIGINT)  # as a terminal's Ctrl-C
    assert running.returncode == -signal.SIGINT
    wait_until(lambda: not list(folder.iterdir()))
