"""Storages that are dropped hold no memory, and have their bytes whenever somebody needs them: replays rebuild them.

The fuzzer drops at each op what can be rebuilt. Whole programs are in test/programs/test_programs.py.
"""

import os

import numpy
import pytest
import torch
from training import make_model, train

import tensorpager
from tensorpager import _core

TRIES = "TENSORPAGER_FUZZ_DROPS"


@pytest.fixture
def dropping(monkeypatch):
    """Enables, with as many drops at each op as there may be."""
    monkeypatch.setenv(TRIES, "200")
    monkeypatch.setenv("TENSORPAGER_FUZZ_EVICTIONS", "0")
    return lambda **options: tensorpager.enable(fuzz=1, quiet=True, **options)


def an_op():
    torch.ones(8).add_(1)


def drops():
    return tensorpager.stats()["drops"]


@pytest.mark.forked
def test_what_is_dropped_is_not_resident_and_is_rebuilt_by_its_op(dropping):
    x = torch.randn(512, 512)
    expected = x.tanh()
    with dropping():
        x = x.clone()
        y = x.tanh()
        an_op()
        stats = tensorpager.stats()
        assert stats["drops"] == 1 and stats["resident_bytes"] - stats["slab_bytes"] < stats["live_bytes"]
        assert torch.equal(y, expected)
        assert tensorpager.stats()["rebuilds"] == 1


@pytest.mark.forked
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.relu().mul_(2).tanh_(),
        lambda x: (x + 1).t(),
        lambda x: x.mul(2)[3:7],
        lambda x: torch.nn.functional.batch_norm(x, torch.zeros(512), torch.ones(512), training=True),
        lambda x: x.view(1, 512, 16, 32).contiguous(memory_format=torch.channels_last) * 3,
        lambda x: torch.zeros_like(x).copy_(x).add_(x),
        lambda x: torch.sort(x).values,
        lambda x: torch.sort(x).indices,
        lambda x: x.to(torch.bfloat16) @ x.to(torch.bfloat16),
        lambda x: torch.cat(torch.unbind(x.sin() + x.cos())),
    ],
)
def test_results_of_every_kind_come_back(make, dropping):
    x = torch.randn(512, 512)
    expected = make(x)
    with dropping():
        x = x.clone()
        result = make(x)
        for _ in range(3):
            an_op()
        assert drops() > 0
        assert result.stride() == expected.stride() and torch.equal(result, expected)


@pytest.mark.forked
@pytest.mark.parametrize("calls, held, is_dropped", [(100, 0, True), (600, 0, False), (600, 511, True)])
def test_a_chain_of_more_than_512_calls_needs_what_the_512th_made(calls, held, is_dropped, dropping):
    expected = x = torch.randn(256, 256)
    for _ in range(calls):
        expected = expected.sin()
    with dropping():
        first = y = x.clone()
        for call in range(calls):
            y = y.sin()
            if call == held:
                kept = y
        an_op()
        stats = tensorpager.stats()
        missing = stats["live_bytes"] - (stats["resident_bytes"] - stats["slab_bytes"])
        # What is held is dropped always; what was there before the session stays, and so does its copy.
        assert (missing >= y.nbytes + kept.nbytes) == is_dropped and first.nbytes <= missing
        assert torch.equal(y, expected)


@pytest.mark.forked
def test_arguments_may_die_or_be_written_while_a_result_is_dropped(dropping):
    x = torch.randn(512, 512)
    first, second = x.sin(), (x * 2).cos()
    with dropping():
        x = x.clone()
        a, b = x.sin(), (x * 2).cos()  # x * 2 dies at once
        an_op()
        assert drops() >= 2
        x.zero_()
        assert torch.equal(a, first) and torch.equal(b, second)
        an_op()
        del x
        an_op()
        assert torch.equal(a, first) and torch.equal(b, second)


@pytest.mark.forked
@pytest.mark.parametrize("binding", ["stable", "rebinding"])
def test_exports_and_lists_of_what_is_dropped(binding, dropping):
    x = torch.randn(128, 128)
    expected = x.exp()
    with dropping(binding=binding):
        x = x.clone()
        a, b = x.exp(), x.exp()
        an_op()
        assert drops() >= 2
        assert a.tolist() == expected.tolist()
        array = b.numpy()
        assert numpy.array_equal(array, expected.numpy())
        array[0, 0] = 7
        for _ in range(4):
            an_op()
        assert b[0, 0] == 7 and torch.equal(b[1:], expected[1:])


@pytest.mark.forked
def test_what_is_written_through_an_export_is_no_source_of_a_replay(dropping):
    x = torch.randn(128, 128)
    expected = x.exp()
    with dropping():
        x = x.clone()
        y = x.exp()
        an_op()
        assert drops() >= 1
        x.numpy()[:] = 0
        assert torch.equal(y, expected)


@pytest.mark.forked
def test_end_of_the_session_brings_all_back(dropping):
    x = torch.randn(256, 256)
    expected = [x.exp(), x.sin(), x.cos()]
    with dropping():
        x = x.clone()
        results = [x.exp(), x.sin(), x.cos()]
        an_op()
        assert drops() >= 3
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


@pytest.mark.forked
def test_forked_child_finds_what_was_dropped(dropping):
    x = torch.randn(256, 256)
    expected = x.exp()
    with dropping():
        x = x.clone()
        y = x.exp()
        an_op()
        assert drops() >= 1
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(y, expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert torch.equal(y, expected)


@pytest.mark.forked
@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.empty_like(x).bernoulli_(0.5).div_(0.5),
        lambda x: torch.nn.functional.dropout(x, 0.3),
        lambda x: torch.bernoulli(x.sigmoid()),
        lambda x: torch.normal(x, 1.0),
        lambda x: x.clone().exponential_() * 2,
        lambda x: x.clone().random_(7),
        lambda x: x.new_empty(512, 512).normal_(generator=torch.Generator().manual_seed(4)).mul_(x),
    ],
)
def test_draws_come_back_and_the_generator_goes_on(draw, dropping):
    x = torch.randn(512, 512)
    torch.manual_seed(5)
    expected, between, after = draw(x), torch.rand(100), torch.rand(100)
    with dropping():
        x = x.clone()
        torch.manual_seed(5)
        result = draw(x)
        for _ in range(3):
            an_op()
        assert drops() > 0
        assert torch.equal(torch.rand(100), between)
        assert torch.equal(result, expected)
        assert torch.equal(torch.rand(100), after)


@pytest.mark.forked
def test_what_replays_cannot_make_is_never_dropped(dropping):
    with dropping():
        noise = torch.rand(256, 256)  # made of nothing
        zeros = torch.zeros(256, 256)  # may be filled by anybody
        foreign = torch.from_numpy(numpy.ones((256, 256), dtype=numpy.float32))
        product = foreign * 2
        for _ in range(4):
            an_op()
        assert drops() == 0
        assert product.sum() == 2 * 256 * 256 and noise.max() < 1 and zeros.sum() == 0


@pytest.mark.forked
def test_training_keeps_its_bits_with_two_threads_and_after_the_session(dropping):
    torch.set_num_threads(2)
    expected = train(make_model())
    for _ in range(2):
        with dropping():
            assert train(make_model()) == expected
            assert drops() > 100
    assert train(make_model()) == expected


@pytest.mark.forked
def test_two_tests_at_once_are_refused(dropping):
    with pytest.raises(ValueError, match="TENSORPAGER_FUZZ_DROPS"):
        dropping(verify_replay=True)
    assert not _core.active()
