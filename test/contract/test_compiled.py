"""torch.compile on the CPU: generated kernels read addresses, not tensors; their arguments are pinned for the call. Slow: the compiler runs."""

import json
import re
import sys
from pathlib import Path

import pytest
from launch import ProgramServer, run_command

PROGRAM = str(Path(__file__).parent / "every_compiled.py")
AS_MODULE = "import every_compiled\nevery_compiled.main()"
MIB = 1 << 20
# Bytes far below what each case needs, and above what its largest call requires.
BUDGETS = {
    "mlp": 2.5,
    "conv_net": 15,
    "attention": 4.5,
    "marked_dynamic": 2.5,
    "varying_batch": 2.5,
    "aot_eager": 2.5,
    "max_autotune": 2.5,
    "flex_attention": 4.5,
    "compiled_optimizer_step": 8,
    "compiled_autograd": 2.5,
    "bfloat16_autocast": 2.5,
}
SERVED_BY_FAULTS = {"cpp_wrapper": 2.5, "compiled_ahead_of_time": 2.5}  # their kernels never pass Python
# The compiler prints the optimizer's tensors, which reads them past all ops, as tolist() does.
PRINTED = ("compiled_optimizer_step", "fuzz")
SECONDS = 400


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Compiled kernels, shared by the runs, so that all but the first find them."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path_factory.mktemp("inductor"))}


@pytest.fixture(scope="module")
def compiler(cache):
    """Starts programs that find the compiler imported, which takes longer than it then compiles."""
    server = ProgramServer("compiler", seconds=SECONDS, **cache)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def plain(compiler, tmp_path_factory):
    """What a case prints without a session; it runs once."""
    outputs = {}

    def output(case):
        if case not in outputs:
            done = compiler.start(tmp_path_factory.mktemp("plain"), AS_MODULE, case).wait()
            assert done.returncode == 0, done.stderr
            outputs[case] = done.stdout
        return outputs[case]

    return output


def run_case(case, options, compiler, folder):
    variables = {f"TENSORPAGER_{name.upper()}": str(value) for name, value in options.items()}
    started = compiler.start(folder, AS_MODULE, case, TENSORPAGER_STATS=str(folder / "stats.json"), **variables)
    done = started.wait()
    assert done.returncode == 0, done.stderr
    return done, json.loads((folder / "stats.json").read_text())


def budget_of(case):
    return int((BUDGETS | SERVED_BY_FAULTS)[case] * MIB)


def assert_within_its_budget(stats):
    assert stats["page_outs"] > 0 and stats["pins"] == 0
    assert stats["over_budget_bytes"] == 0
    assert stats["peak_bytes"] <= stats["budget_bytes"] < stats["need_bytes"]


@pytest.mark.forked(seconds=SECONDS)
def test_compiled_training_has_the_same_bits_as_after_the_session(spill, tmp_path, monkeypatch):
    import torch
    from every_compiled import BATCH, Residual, rows, train

    import tensorpager

    def losses():
        torch.manual_seed(0)
        return [loss.item() for loss in train(Residual(3), rows(BATCH, BATCH))]

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # a pool of compilers would outlive the fork
    tensorpager.enable(budget="1536KiB", spill=spill)
    found, stats = losses(), tensorpager.stats()
    assert_within_its_budget(stats)
    assert stats["faults"] == 0 and stats["write_faults"] == 0
    tensorpager.disable()
    assert losses() == found


@pytest.mark.forked
def test_each_call_of_a_compiled_kernel_is_an_op(spill):
    import torch

    import tensorpager
    from tensorpager import _core

    with tensorpager.enable(budget="unlimited", spill=spill):
        tensor = torch.ones(1 << 14)
        before = tensorpager.stats()["ops"]
        for _ in range(7):
            seen = _core.call_pinned(
                lambda t: tensorpager.stats()["pins"], (tensor,), [(tensor.untyped_storage()._cdata, True)]
            )
            assert seen == 1
        assert tensorpager.stats()["ops"] == before + 7


@pytest.mark.slow
@pytest.mark.parametrize("options", ["budget", "fuzz"])
@pytest.mark.parametrize("case", BUDGETS)
def test_compiled_training_has_the_same_bits_and_no_access_outside_its_pins(case, options, plain, compiler, tmp_path):
    expected = plain(case)
    fuzz = {"budget": "unlimited", "fuzz": 1}
    done, stats = run_case(case, {"budget": budget_of(case)} if options == "budget" else fuzz, compiler, tmp_path)
    assert done.stdout == expected
    assert stats["page_outs"] > 0 and stats["pins"] == 0
    assert stats["write_faults"] == 0
    if (case, options) != PRINTED:
        assert stats["faults"] == 0
    if options == "budget":
        assert_within_its_budget(stats)


@pytest.mark.slow
@pytest.mark.parametrize("case", SERVED_BY_FAULTS)
def test_kernels_that_never_pass_python_are_served_by_faults_with_the_same_bits(case, plain, compiler, tmp_path):
    expected = plain(case)
    done, stats = run_case(case, {"budget": budget_of(case)}, compiler, tmp_path)
    assert done.stdout == expected
    assert_within_its_budget(stats)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", ["cold", "warm"])
def test_kernels_are_pinned_whether_they_were_compiled_now_or_found_in_the_cache(temperature, plain, cache, tmp_path):
    """By the command, in a process that imports all by itself."""
    expected = plain("mlp")
    if temperature == "cold":
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    options = ["--budget", budget_of("mlp"), "--stats", tmp_path / "stats.json"]
    done = run_command("run", *options, "--", sys.executable, PROGRAM, "mlp", variables=cache, seconds=SECONDS)
    assert done.returncode == 0, done.stderr
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert done.stdout == expected
    assert stats["page_outs"] > 0 and stats["faults"] == 0
    hits = int(re.search(r"graphs found in the cache: (\d+)", done.stderr)[1])
    assert (hits > 0) == (temperature == "warm")


@pytest.mark.slow
def test_compiled_call_that_does_not_fit_is_refused_and_training_goes_on(plain, compiler, tmp_path):
    expected = plain("too_large")
    done, stats = run_case("too_large", {"budget": "12MB"}, compiler, tmp_path)
    refusal, losses = done.stdout.splitlines()
    assert re.fullmatch(
        r"refused: Tensorpager: a compiled kernel: out of memory under the budget: 16.0 MiB asked for .* budget of .*",
        refusal,
    )
    name, first, *rest = expected.split()  # without a budget the call gave a value
    assert losses.split() == [name, *rest]
    assert stats["peak_bytes"] <= stats["budget_bytes"] and stats["pins"] == 0
