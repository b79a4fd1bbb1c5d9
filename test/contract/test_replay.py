"""Ops that can be run again for what they made: `--verify-replay` runs each call of them twice more, on copies, and reports what differs.

The rules are right if nothing differs, over torch's database of ops and over programs. The verifier is right if it reports each kind of
wrong rule, which the tests make by ops that they let it trust, and if it changes nothing of the program.
"""

import json
import os
import re
import sys

import pytest
import torch
from launch import HERE, run_command
from replay_sweep import channels_last, sweep
from training import make_model, train

import tensorpager
from tensorpager import _core

sys.path.insert(0, str(HERE.parent / "programs"))
from cases import BRIEF

PROGRAMS = HERE.parent / "programs"
QUICK = ("resnet",)  # of the programs; all others are slow
TRUSTED = "TENSORPAGER_VERIFY_REPLAY_OF"


def differing(stats):
    return stats.get("replay_different_ops", [])


@pytest.mark.forked(seconds=240)
def test_no_op_of_the_database_differs():
    stats = sweep(samples=2)
    assert differing(stats) == []
    assert stats["replayed_calls"] > 6_000


@pytest.mark.slow
@pytest.mark.forked(seconds=900)
@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"samples": 20}, 40_000),
        ({"dtype": torch.bfloat16, "samples": 20}, 25_000),
        ({"dtype": torch.float64, "samples": 20}, 40_000),
        ({"dtype": torch.complex64, "samples": 10}, 5_000),
        ({"change": channels_last, "samples": 6}, 20_000),
        ({"autocast": True, "samples": 6}, 20_000),
        ({"in_place": True, "samples": 6}, 5_000),
    ],
    ids=["float32", "bfloat16", "float64", "complex64", "channels_last", "autocast", "in place"],
)
def test_no_op_of_the_database_differs_in_other_forms(options, least):
    stats = sweep(**options)
    assert differing(stats) == []
    assert stats["replayed_calls"] > least


@pytest.mark.slow
@pytest.mark.forked(seconds=900)
def test_no_op_of_the_database_differs_with_two_threads():
    torch.set_num_threads(2)
    assert differing(sweep(samples=6, in_place=True)) == []


@pytest.mark.parametrize(
    "program", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in BRIEF]
)
def test_no_op_of_a_program_differs_and_its_bits_are_the_same(program, tmp_path):
    command = [sys.executable, PROGRAMS / f"{program}.py", *BRIEF[program].split()]
    runs = {}
    for kind, options in {"plain": [], "verified": ["--verify-replay"]}.items():
        file = tmp_path / f"{kind}.json"
        options = ["--budget", "unlimited", "--quiet", "--stats", file, *options]
        runs[kind] = run_command("run", *options, "--", *command, seconds=600), json.loads(file.read_text())
    (plain, _), (verified, stats) = runs["plain"], runs["verified"]
    assert (verified.returncode, verified.stdout) == (0, plain.stdout), verified.stderr
    assert "replay of" not in verified.stderr
    assert differing(stats) == [] and stats["replayed_calls"] > 100
    assert stats["ops"] == runs["plain"][1]["ops"]  # what a replay calls is no op of the program's


@pytest.mark.parametrize(
    ("op", "purity"),
    [
        ("aten::add.Tensor", "pure"),
        ("aten::add_.Tensor", "pure"),
        ("aten::convolution", "pure"),
        ("aten::nonzero", "pure"),
        ("aten::native_batch_norm", "scratch"),
        ("aten::_native_batch_norm_legit", "pure"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "no-draw"),
        ("aten::empty.memory_format", "never"),
        ("aten::new_empty_strided", "never"),
        ("aten::bernoulli_.float", "draws"),
        ("aten::native_dropout", "never"),
        ("aten::index_put_", "never"),
        ("aten::linalg_lstsq", "never"),
        ("aten::_unsafe_view", "never"),
        ("aten::view", "never"),
        ("aten::_local_scalar_dense", "never"),
        ("aten::resize_", "never"),
        ("aten::_foreach_add_.Scalar", "never"),
        ("aten::_fused_adam_", "never"),
        ("aten::linear", "never"),
        ("mkldnn::_linear_pointwise", "never"),
    ],
)
def test_rule_of_an_op(op, purity):
    assert _core.replay_rule(op).split(":")[0] == purity


def test_op_that_torch_does_not_know_has_no_rule():
    with pytest.raises(ValueError, match="'aten::ad' is no op"):
        _core.replay_rule("aten::ad")


def library_with(schema, kernel):
    """A library that lives as long as the process, which the test has for itself."""
    library = torch.library.Library("replay_test", "DEF")
    library.define(schema)
    library.impl("op", kernel, "CPU")
    globals()["kept"] = library


def counting():
    """Gives another result each time."""
    calls = []

    def kernel(x):
        calls.append(1)
        return x + len(calls)

    return kernel


def writes_what_it_reads(x):
    x[0] += 1
    return x * 2


def draws(x):
    return x + torch.rand(())


def draws_nothing_into_its_result(x):
    torch.rand(())
    return x * 2


def of_another_type():
    types = iter([torch.float32, torch.float64, torch.float64, torch.float32])
    return lambda x: x.to(next(types), copy=True)


def fails_when_repeated():
    factors = iter([1])
    return lambda x: x * next(factors)


def keeps_its_argument(x):
    return x.detach()


def leaves_a_gap(x):
    result = torch.empty_like(x)
    result[1:] = x[1:]
    return result


@pytest.mark.forked
@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (
            counting(),
            r"result 0 differs in \d+ of 64 bytes, first in byte \d+, of which \d+ also from replay to replay",
        ),
        (writes_what_it_reads, "writes an argument that its schema says it only reads"),
        (draws, "draws from the default generator"),
        (draws_nothing_into_its_result, "draws from the default generator"),
        (of_another_type(), r"result 0 is float\[16\] .*, and replayed double\[16\]"),
        (fails_when_repeated(), "cannot be repeated: StopIteration"),
        (keeps_its_argument, "result 0 is an alias of an argument, which its schema does not say"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_wrong_rule_is_reported_once_and_changes_nothing(kernel, reason, monkeypatch, capfd):
    library_with("op(Tensor x) -> Tensor", kernel)
    monkeypatch.setenv(TRUSTED, "replay_test::op")
    torch.manual_seed(5)
    with tensorpager.enable(verify_replay=True, quiet=True):
        x = torch.ones(16)
        state = torch.get_rng_state()
        torch.ops.replay_test.op(x)
        drew = not torch.equal(torch.get_rng_state(), state)
        assert x.tolist() == ([2.0] if kernel is writes_what_it_reads else [1.0]) + [1.0] * 15
        after_one, expected = torch.rand(3), torch.Generator().manual_seed(5)
        if drew:
            torch.rand((), generator=expected)
        assert torch.equal(after_one, torch.rand(3, generator=expected))
        stats = tensorpager.stats()
        assert (stats["replay_differences"], differing(stats)) == (1, ["replay_test::op"])
        try:
            torch.ops.replay_test.op(x)
        except Exception:
            assert kernel.__qualname__.startswith("fails")
        assert tensorpager.stats()["replay_differences"] == 1
    lines = capfd.readouterr().err.splitlines()
    assert [bool(re.search(rf"^tensorpager: replay of replay_test::op: {reason}", line)) for line in lines] == [True]


@pytest.mark.forked
def test_bytes_that_an_op_never_writes_are_no_difference(monkeypatch):
    library_with("op(Tensor x) -> Tensor", leaves_a_gap)
    monkeypatch.setenv(TRUSTED, "replay_test::op")
    with tensorpager.enable(verify_replay=True, quiet=True):
        torch.ops.replay_test.op(torch.ones(16))
        stats = tensorpager.stats()
    assert stats["replayed_calls"] > 1 and differing(stats) == []


@pytest.mark.forked
def test_random_op_of_torchs_is_reported_if_it_is_trusted(monkeypatch):
    monkeypatch.setenv(TRUSTED, "aten::native_dropout")
    with tensorpager.enable(verify_replay=True, quiet=True):
        torch.native_dropout(torch.ones(64), 0.5, True)
        assert differing(tensorpager.stats()) == ["aten::native_dropout"]


@pytest.mark.forked
def test_library_op_is_not_replayed(capfd):
    kernel = counting()
    library_with("op(Tensor x) -> Tensor", kernel)
    with tensorpager.enable(verify_replay=True, quiet=True):
        assert torch.ops.replay_test.op(torch.zeros(3)).tolist() == [1, 1, 1]
        assert torch.ops.replay_test.op(torch.zeros(3)).tolist() == [2, 2, 2]
        assert differing(tensorpager.stats()) == []
    assert capfd.readouterr().err == ""


@pytest.mark.forked
def test_nothing_is_replayed_unless_it_is_wanted():
    with tensorpager.enable(quiet=True):
        train(make_model())
        stats = tensorpager.stats()
    assert stats["replayed_calls"] == stats["replay_differences"] == 0
    with tensorpager.enable(quiet=True, verify_replay=True):
        train(make_model())
        assert tensorpager.stats()["replayed_calls"] > 100
    with tensorpager.enable(quiet=True):
        train(make_model())
        assert tensorpager.stats()["replayed_calls"] == 0


@pytest.mark.forked
def test_verification_goes_with_paging(spill):
    expected = train(make_model())
    for options in ({"budget": "1MiB"}, {"fuzz": 1}, {"budget": "1MiB", "fuzz": 2}):
        with tensorpager.enable(spill=spill, verify_replay=True, quiet=True, **options):
            assert train(make_model()) == expected
            stats = tensorpager.stats()
        assert differing(stats) == [] and stats["replayed_calls"] > 100
        assert stats["page_ins"] > 0
        assert stats["pins"] == stats["over_budget_bytes"] == stats["faults"] == stats["write_faults"] == 0


@pytest.mark.forked
def test_dry_run_refuses_it():
    with pytest.raises(ValueError, match="replay could be compared"):
        os.environ |= {"TENSORPAGER_DRY": "1", "TENSORPAGER_TRACE": "unused.trace"}
        tensorpager.enable(verify_replay=True)


@pytest.mark.forked
def test_op_to_trust_must_exist(monkeypatch):
    monkeypatch.setenv(TRUSTED, "aten::ad")
    with pytest.raises(ValueError, match="'aten::ad' is no op"):
        tensorpager.enable(verify_replay=True, quiet=True)
