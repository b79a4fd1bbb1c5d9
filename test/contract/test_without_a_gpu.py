"""CUDA programs without a GPU: `run --emulate`, `trace --dry`, `estimate`: what they say, and that dry is as real."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from emulated import TORCH, card_of
from launch import environment, run_command
from marks import slow

import tensorpager

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "test" / "programs"
sys.path.insert(0, str(ROOT / "bench"))

from traces import Trace, difference

CARD = "h100-80g"
LIBRARY = next(
    iter(Path(sys.prefix).glob("lib/python*/site-packages/tensorpager/lib/libtensorpager_emulation.so")), None
)
only_stable = pytest.mark.stable("a dry run holds no bytes, and has the stable binding")
needs_cuda = pytest.mark.skipif(LIBRARY is None, reason="this torch has no CUDA, so there is no emulated card")
CPP = ROOT / "build" / "cpp" / "cpp_programs"


def program(name, *options):
    return "--", sys.executable, PROGRAMS / f"{name}.py", *options


def emulation_of(path):
    return json.loads(path.read_text())["emulation"]


def trace(path, *options, verb=("trace",), **variables):
    done = run_command(*verb, "-o", path, *options, variables=variables, seconds=120)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size > 0, done.stderr
    return done


def op_names(path, flag=""):
    """Of the ops of a trace that have this word in their line."""
    lines = [line.split() for line in path.read_text().splitlines() if line.startswith("op ")]
    return {words[1] for words in lines if flag in words or not flag}


@needs_cuda
@only_stable
def test_dry_trace_for_a_budget_has_the_parts_of_list_ops_of_a_run_under_it(tmp_path):
    work = """if True:
        import torch
        layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).cuda()
        optimizer = torch.optim.AdamW(layers.parameters(), foreach=True)
        x = torch.ones(64, 512, device="cuda")
        for _ in range(6):
            layers(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    """

    def list_ops(name, *options):
        file = tmp_path / f"{name}.trace"
        on = ("--device", "cuda", "--machine", CARD)
        trace(file, *on, *options, "--", sys.executable, "-c", work, CUBLAS_WORKSPACE_CONFIG=":16:8")
        return [line.split()[1] for line in file.read_text().splitlines() if "_foreach_" in line]

    budget = ("--budget", "24MiB")
    divided = list_ops("divided", "--dry", *budget)
    assert len(divided) > 4 * len(list_ops("whole", "--dry"))
    assert divided == list_ops("real", *budget)


@needs_cuda
@only_stable
def test_dry_trace_says_in_which_precision_products_are_computed(tmp_path):
    """cuDNN's own switch is another one: rates of convolutions are those of TF32."""
    work = """if True:
        import torch
        torch.set_float32_matmul_precision({!r})
        layer = torch.nn.Linear(256, 256).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        x = torch.ones(256, 256, device="cuda")
        for _ in range(6):
            optimizer.zero_grad()
            (layer(x) + torch.bmm(x[None].half(), x[None].half())).sum().backward()
            optimizer.step()
    """
    for allowed, precision in (("highest", []), ("high", ["precision=tf32"])):
        file = tmp_path / f"{allowed}.trace"
        trace(file, "--dry", "--device", "cuda", "--machine", CARD, "--", sys.executable, "-c", work.format(allowed))
        said = {
            line.split()[1]: re.findall("precision=[a-z0-9]+", line)
            for line in file.read_text().splitlines()
            if line.startswith("op ")
        }
        assert said["aten::addmm"] == said["aten::mm"] == precision
        assert said["aten::add.Tensor"] == []
        assert said["aten::bmm"] == ["precision=float16"]


@needs_cuda
@pytest.mark.parametrize("schedule", [slow("now"), slow("threads"), "1", slow("2")])
def test_cuda_program_prints_the_bits_of_the_cpu_under_every_schedule(schedule, tmp_path):
    plain = run_command("run", "--budget", "unlimited", "--quiet", *program("resnet")).stdout
    words = ("run", "--emulate", CARD, "--emulate-seed", schedule, "--stats", tmp_path / "stats.json")
    done = run_command(*words, *program("resnet", "--device", "cuda"))
    assert done.stdout == plain
    found = emulation_of(tmp_path / "stats.json")
    assert found["races"] == 0 and found["launches_refused"] == 0 and found["kernels"] > 1000
    said = rf"tensorpager: emulated {CARD}: at most [\d.]+ MiB allocated, [\d.]+ MiB reserved; {found['kernels']} kernels, 0 races\n"
    assert re.fullmatch(said, done.stderr)


@needs_cuda
def test_program_sees_the_card_that_was_named(tmp_path):
    script = tmp_path / "show.py"
    script.write_text(
        "import torch\nprint(torch.cuda.device_count(), torch.cuda.get_device_capability(1), torch.cuda.mem_get_info()[1])\n"
    )
    done = run_command("run", "--emulate", "2xv100-16g", "--", sys.executable, script)
    memory = re.search(r"memory=(\d+)", run_command("machine", "v100-16g").stdout.split("card ")[1])[1]
    assert done.stdout == f"2 (7, 0) {memory}\n"


@needs_cuda
@pytest.mark.skipif(not CPP.exists(), reason="the C++ programs are not built")
@pytest.mark.parametrize("name", ["resnet", "transformer"])
@only_stable
def test_cpp_program_runs_emulated_and_dry(name, tmp_path):
    done = run_command("run", "--emulate", CARD, "--emulate-seed", 1, "--", CPP, name, 2, "cuda")
    assert done.returncode == 0 and "digest " in done.stdout and " 0 races\n" in done.stderr
    dry = trace(tmp_path / "step.trace", "--dry", "--device", "cuda", "--machine", CARD, "--", CPP, name, 40, "cuda")
    assert "(written)" in dry.stderr and "digest" not in dry.stdout


@needs_cuda
@pytest.mark.parametrize("name", ["gpt", slow("packed_lstm")])
@only_stable
def test_allocator_gives_out_and_reserves_the_same_bytes_dry_and_real(name, tmp_path):
    stats = {way: tmp_path / f"{way}.json" for way in ("real", "dry")}
    options = program(name, "--device", "cuda")
    assert run_command("run", "--emulate", CARD, "--stats", stats["real"], *options).returncode == 0
    trace(tmp_path / "a.trace", "--dry", "--device", "cuda", "--machine", CARD, *options,
          TENSORPAGER_STATS=str(stats["dry"]), TENSORPAGER_DRY_LONGER="300")  # fmt: skip
    real, dry = emulation_of(stats["real"]), emulation_of(stats["dry"])
    for figure in ("max_allocated_bytes", "max_reserved_bytes"):
        assert real[figure] == dry[figure] > 10 << 20


@needs_cuda
@only_stable
def test_card_is_recorded_the_same_dry_and_real(tmp_path):
    options = (
        "--device",
        "cuda",
        "--machine",
        CARD,
        "--class",
        "step",
        *program("transformer_encoder", "--device", "cuda"),
    )
    trace(tmp_path / "real.trace", *options)
    trace(tmp_path / "dry.trace", "--dry", *options, TENSORPAGER_DRY_LONGER="300")
    found = difference(*(Trace.read(tmp_path / f"{way}.trace") for way in ("real", "dry")))
    assert found["same_steps"] and found["same_storages"] and found["same_work"]
    assert found["need_bytes"][0] == found["need_bytes"][1]
    pure = [op_names(tmp_path / f"{way}.trace", "pure") for way in ("real", "dry")]
    assert pure[0] == pure[1] >= {"aten::addmm", "aten::native_layer_norm", "aten::native_dropout"}
    assert "aten::embedding_dense_backward" in op_names(tmp_path / "dry.trace") - pure[1]


@pytest.mark.parametrize("name", ["gpt", slow("unet"), slow("packed_lstm")])
@only_stable
def test_dry_trace_of_the_cpu_is_that_of_the_real_run(name, tmp_path):
    trace(tmp_path / "real.trace", "--class", "step", "--smallest", 1, *program(name))
    trace(tmp_path / "dry.trace", "--dry", *program(name), TENSORPAGER_DRY_LONGER="300")
    found = difference(*(Trace.read(tmp_path / f"{way}.trace") for way in ("real", "dry")))
    assert found["same_ops"] and found["same_storages"] and found["same_work"]
    real, dry = found["need_bytes"]
    assert abs(dry - real) <= 0.005 * real


@only_stable
def test_dry_run_ends_when_a_step_has_repeated(tmp_path):
    done = trace(tmp_path / "a.trace", "--dry", *program("gpt", "--steps", 1000))
    assert 4 <= done.stdout.count("step ") <= 5 and "digest" not in done.stdout
    assert re.search(r"tensorpager: dry: \d+ ops skipped", done.stderr)


# torch's tutorial on optimizers in the backward pass.
IN_BACKWARD = """
import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)])
optimizers = {p: torch.optim.AdamW([p], foreach=False) for p in model.parameters()}

def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()

for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step)
for _ in range(1000):
    loss = model(torch.randn(256, 512)).square().mean()
    loss.backward()
    print(loss.item())
"""


@only_stable
def test_step_of_optimizers_in_the_backward_pass_begins_before_its_forward_pass(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(IN_BACKWARD)
    done = trace(tmp_path / "a.trace", "--dry", "--", sys.executable, script)
    assert 6 <= len(done.stdout.splitlines()) <= 7
    ops = [line.split() for line in (tmp_path / "a.trace").read_text().splitlines() if line.startswith("op ")]
    backward = ["backward" in op or "optimizer" in op for op in ops]
    begins = backward.index(True)
    assert [op[1] for op in ops[:begins]].count("aten::addmm") == 8
    assert all(backward[begins:-1])  # but for the value of the loss


@only_stable
def test_program_that_catches_the_end_of_a_dry_run_is_ended_all_the_same(tmp_path):
    script = tmp_path / "stubborn.py"
    script.write_text(
        "import torch\nmodel = torch.nn.Linear(300, 300)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "while True:\n    try:\n        model(torch.randn(64, 300)).sum().backward()\n"
        "        optimizer.step()\n        optimizer.zero_grad()\n    except BaseException:\n        print('caught', flush=True)\n"
    )
    done = trace(tmp_path / "a.trace", "--dry", "--", sys.executable, script)
    assert done.stdout.count("caught") == 2


@needs_cuda
@only_stable
def test_estimate_is_one_screen_with_the_allocators_own_figures(tmp_path):
    words = ("--machine", CARD, "--budget", "20MiB", *program("gpt", "--device", "cuda"))
    done = run_command("estimate", *words)
    assert done.returncode == 0 and done.stderr == ""
    assert len(done.stdout.splitlines()) < 24 and "fits" in done.stdout and "step " not in done.stdout.splitlines()[0]
    found = json.loads(run_command("estimate", "--json", *words).stdout)
    parts = ("parameter", "gradient", "optimizer_state", "activation", "backward", "temporary", "workspace", "other")
    assert (
        sum(found[f"{part}_bytes"] for part in parts) == found["need_bytes"] <= found["max_allocated_bytes"] + (1 << 20)
    )
    assert found["max_allocated_bytes"] <= found["max_reserved_bytes"]
    assert found["optimizer_state_bytes"] >= 2 * found["parameter_bytes"] * 0.99 > 0  # Adam's
    if TORCH < (2, 15):  # later, a product's workspace is a temporary of that op
        # cuBLAS's on compute capability 9.0, of two threads; and that of cuBLASLt, which adds biases.
        assert found["workspace_bytes"] == 2 * (32 << 20) + (1 << 20)
    assert found["free"]["overhead"] <= 0.01 and found["free"]["budget_bytes"] <= found["need_bytes"]


@needs_cuda
@only_stable
def test_estimate_counts_what_an_evaluation_after_the_steps_reserves(tmp_path):
    script = tmp_path / "evaluates.py"
    script.write_text(
        "import sys, torch\nmodel = torch.nn.Linear(512, 4096, device='cuda')\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nfor step in range(1000):\n"
        "    model(torch.randn(64, 512, device='cuda')).sum().backward()\n"
        "    optimizer.step()\n    optimizer.zero_grad()\n"  # enough for a step that repeats to be noticed
        "with torch.no_grad():\n    print(model(torch.randn(int(sys.argv[1]), 512, device='cuda')).sum())\n"
    )

    def estimate(rows):
        words = ("--machine", CARD, "--", sys.executable, script, rows)
        return json.loads(run_command("estimate", "--json", *words).stdout)

    few, many = estimate(1), estimate(8192)
    assert few["need_bytes"] == many["need_bytes"]  # of a step
    output = 8192 * 4096 * 4
    assert many["max_reserved_bytes"] >= few["max_reserved_bytes"] + output
    assert many["max_allocated_bytes"] >= output > few["max_allocated_bytes"]


@needs_cuda
@only_stable
def test_estimate_says_how_much_a_program_needs_that_does_not_fit(tmp_path):
    tiny = card_of(tmp_path, 64 << 20)
    done = run_command("estimate", "--machine", tiny, *program("gpt", "--device", "cuda"))
    assert done.returncode == 0 and "the whole card" in done.stdout
    reserved = next(line for line in done.stdout.splitlines() if "reserved" in line)
    assert "of 64.0 MiB on the card" in reserved and reserved.endswith("DOES NOT FIT")


def test_build_for_a_torch_without_cuda_says_what_to_install(tmp_path):
    """What such a build installs, which lacks these libraries."""
    package = Path(tensorpager.__file__).parent
    copied = tmp_path / package.relative_to(sys.prefix)
    without = ("*_cuda.so", "*_emulation.so", "fake_cuda")
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns(*without), symlinks=True)
    (tmp_path / "bin").mkdir()
    command = shutil.copy(Path(sys.executable).with_name("tensorpager"), tmp_path / "bin")
    for verb in (("run", "--emulate", CARD), ("trace", "--device", "cuda", "--machine", CARD, "-o", tmp_path / "a")):
        done = subprocess.run([command, *verb, "--", "true"], capture_output=True, text=True, env=environment())
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert "this build has no emulated card" in done.stderr and "pip install torch" in done.stderr


@needs_cuda
@only_stable
def test_estimate_of_a_program_that_fails_shows_its_last_lines(tmp_path):
    done = run_command(
        "estimate", "--machine", CARD, "--", sys.executable, "-c", "import torch; raise ValueError('no data')"
    )
    assert done.returncode == 1
    assert "no estimate: the program ended with exit code 1" in done.stderr and "ValueError: no data" in done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (("trace", "--device", "cuda", "-o", "a", "--", "true"), "write --machine CARD"),
        (("trace", "--machine", CARD, "-o", "a", "--", "true"), "write --device cuda, too"),
        (("run", "--emulate", "tpu", "--", "true"), "'tpu' is no machine"),
        (("run", "--emulate", "9xh100-80g", "--", "true"), "1 to 8 cards"),
        (("run", "--emulate", "16xh100-80g", "--", "true"), "1 to 8 cards can be emulated, not 16; write 8xh100-80g"),
        (("estimate", "--machine", CARD), "no program"),
        (("trace", "--dry", "--binding", "rebinding", "-o", "a", *program("gpt")), "a dry run has no fuzzer"),
    ],
)
def test_wrong_usage_is_one_line(words, said, tmp_path):
    done = run_command(*words, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr
