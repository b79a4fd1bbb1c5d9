"""`enable()`, `disable()` and `stats()` in a program or a notebook."""

import faulthandler
import gc
import io
import signal
import threading

import pytest
import torch
from launch import STABLE
from training import SHORT, digest, evict, make_model, train

import tensorpager
from tensorpager import _core

pytestmark = pytest.mark.forked


def test_context_manager_disables_at_the_end_of_the_block_even_by_an_exception(spill):
    with tensorpager.enable(budget="1GiB", spill=spill) as session:
        assert isinstance(session, tensorpager.Session) and _core.active()
    assert not _core.active()
    with pytest.raises(KeyError), tensorpager.enable(budget="1GiB", spill=spill):
        raise KeyError
    assert not _core.active()


def test_two_sessions_at_once_are_refused_and_the_first_goes_on(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    with pytest.raises(ValueError, match="enabled already; call disable"):
        tensorpager.enable(budget="1GiB", spill=spill)
    assert tensorpager.stats()["budget_bytes"] == SHORT
    assert train(make_model()) and tensorpager.stats()["page_outs"] > 0


def test_disable_without_a_session_does_nothing():
    tensorpager.disable()
    assert tensorpager.stats()["ops"] == 0


def test_options_come_from_the_variables_where_none_is_given(monkeypatch, spill):
    monkeypatch.setenv("TENSORPAGER_BUDGET", "3MiB")
    monkeypatch.setenv("TENSORPAGER_SPILL", "ram")
    with tensorpager.enable(spill=spill):
        stats = tensorpager.stats()
    assert stats["budget_bytes"] == 3 << 20 and spill in stats["spill"]


def test_session_without_a_budget_is_not_limited_and_still_counts(spill):
    with tensorpager.enable(spill=spill):
        train(make_model())
    stats = tensorpager.stats()
    assert stats["budget_bytes"] == 1 << 60
    assert stats["page_outs"] == 0 < stats["floor_bytes"] < stats["need_bytes"] <= stats["peak_bytes"]


def test_tensors_made_before_are_counted_and_stay_usable(spill, capfd):
    before = [torch.full((256, 256), float(value)) for value in range(3)]
    views = [before[0][:10], before[0].T]  # of a storage that is counted already
    tensorpager.enable(budget=SHORT, spill=spill, quiet=False)
    assert tensorpager.stats()["foreign_before_bytes"] == 3 * (256 << 10)
    assert capfd.readouterr().err == (
        "tensorpager: 768 KiB of tensors were made before enable() and stay outside the budget\n"
    )
    many = [before[1] * value + before[2] for value in range(8)]
    evict()
    assert [tensor.sum().item() / (256 << 8) for tensor in many] == [value + 2 for value in range(8)]
    before[0].add_(many[1])
    assert views[0].sum().item() == 3 * 10 * 256 and views[1].sum().item() == 3 * (256 << 8)
    assert tensorpager.stats()["outside_budget_bytes"] == 3 * (256 << 10)
    assert tensorpager.stats()["over_budget_bytes"] == 0


def test_quiet_session_says_nothing_of_what_was_made_before(spill, capfd):
    before = torch.zeros(256, 256)
    tensorpager.enable(budget=SHORT, spill=spill, quiet=True)
    assert tensorpager.stats()["foreign_before_bytes"] == before.nbytes
    assert capfd.readouterr().err == ""


def test_model_made_before_trains_to_the_same_bits(spill):
    expected = train(make_model())
    model = make_model()
    with tensorpager.enable(budget=SHORT, spill=spill):
        assert train(model) == expected


def test_tensors_hold_their_bytes_after_disable_and_training_goes_on(spill):
    model = make_model()
    expected = train(model, steps=2) + train(model, steps=2, seed=1)
    expected_weights = digest(*model.parameters())
    tensorpager.enable(budget=SHORT, spill=spill)
    model = make_model()
    losses = train(model, steps=2)
    at_the_end = digest(*model.parameters())
    evict()
    tensorpager.disable()
    assert digest(*model.parameters()) == at_the_end
    assert tensorpager.stats()["live_bytes"] > 0
    losses += train(model, steps=2, seed=1)
    assert (losses, digest(*model.parameters())) == (expected, expected_weights)


def test_statistics_stay_as_they_were_at_disable(spill):
    with tensorpager.enable(budget=SHORT, spill=spill):
        train(make_model())
        page_outs = tensorpager.stats()["page_outs"]
    after = tensorpager.stats()
    train(make_model())
    assert tensorpager.stats() == after
    assert after["page_outs"] == page_outs > 0


def test_sessions_follow_one_another_and_count_from_zero(spill):
    expected = train(make_model())
    held = []
    for _ in range(3):
        with tensorpager.enable(budget=SHORT, spill=spill):
            assert tensorpager.stats()["ops"] == 0
            model = make_model()
            assert train(model) == expected
            held.append((digest(*model.parameters()), model))
        stats = tensorpager.stats()
        assert stats["peak_bytes"] <= SHORT and stats["over_budget_bytes"] == 0 < stats["page_outs"]
    assert len({weights for weights, _ in held}) == 1
    assert [digest(*model.parameters()) for _, model in held] == [weights for weights, _ in held]


def test_what_a_session_left_is_charged_to_the_next_and_can_be_paged_out(spill):
    with tensorpager.enable(budget="1GiB", spill=spill):
        left = [torch.full((256, 256), float(value)) for value in range(8)]
    tensorpager.enable(budget=SHORT, spill=spill)
    more = [tensor + 1 for tensor in left]
    stats = tensorpager.stats()
    assert stats["live_bytes"] >= 16 * (256 << 10) and stats["page_outs"] >= 12
    assert [tensor.mean().item() for tensor in left + more] == [*range(8), *range(1, 9)]


def test_disable_gives_the_spill_space_back_and_takes_the_wrappers_off(spill):
    owners = {
        torch.Tensor: ("numpy", "__array__", "__dlpack__"),
        torch.UntypedStorage: ("_write_file", "_set_from_file"),
        torch._C.PyTorchFileWriter: ("write_record",),
        threading.Thread: ("_bootstrap_inner",),
        faulthandler: ("enable",),
        signal: ("signal", "pthread_sigmask"),
    }

    def wrapped():
        return [vars(owner).get(name) for owner, names in owners.items() for name in names]

    plain = wrapped()
    with tensorpager.enable(budget="1GiB", spill=spill):
        assert all(one is not other for one, other in zip(wrapped(), plain))
        kept = torch.ones(256, 256)
        evict()
        assert tensorpager.stats()["spill_bytes"] == 256 << 10
    assert wrapped() == plain
    torch.save(kept, io.BytesIO())
    tensorpager.enable(budget="1GiB", spill=spill)
    if STABLE:  # under rebinding what lies beyond the new budget's arena is paged out at once
        assert tensorpager.stats()["spill_bytes"] == 0
    assert kept.sum() == 256 << 8


def test_dead_tensors_leave_nothing_behind(spill):
    tensorpager.enable(budget=SHORT, spill=spill)
    train(make_model())
    evict_target = torch.ones(256, 256)
    evict()
    del evict_target
    gc.collect()
    stats = tensorpager.stats()
    assert (stats["live_blocks"], stats["records"], stats["spill_bytes"]) == (0, 0, 0)
    assert stats["live_bytes"] == stats["slab_bytes"] == stats["resident_bytes"]
