"""The emulated card: programs get the CPU's bits, in every schedule of the card, and what is wrong on a card is wrong on it."""

import pytest
from emulated import TORCH, run_emulated
from emulation_programs import DEVICE_ONLY, EITHER_DEVICE
from marks import needs_emulated_card

pytestmark = needs_emulated_card
SCHEDULES = ["threads", "late", "1", "2", "3"]
# Ops that the host waits for, as it does on a card, and a few without a shape function.
MAY_BE_WAITED_FOR = {
    "aten::_ctc_loss",
    "aten::_ctc_loss_backward",
    "aten::_transformer_encoder_layer_fwd",
    "aten::_unique2",
    "aten::equal",
    "aten::nonzero",
}


def run(*names, **options):
    return run_emulated("emulation_programs.py", *names, **options)


@pytest.fixture(scope="module")
def at_once():
    return run(schedule="now")


@pytest.fixture(scope="module")
def special_at_once():
    """Of programs that look at one thing each; the one of memory comes first, while the stream has no workspace."""
    return run(
        "memory", "copy_that_is_read_early", "recorded", "freed_too_early", "speed", "installation", schedule="now"
    )["device"]


@pytest.fixture(scope="module")
def special_on_threads():
    return run("copy_that_is_read_early", "recorded", "freed_too_early", schedule="threads")["device"]


@pytest.mark.parametrize("program", EITHER_DEVICE)
def test_trains_with_the_bits_of_the_cpu(at_once, program):
    assert "failed" not in at_once["device"][program]
    assert at_once["device"][program] == at_once["cpu"][program]


@pytest.mark.parametrize("program", DEVICE_ONLY)
def test_runs_what_only_a_card_has(at_once, program):
    assert "failed" not in at_once["device"][program]


def test_launches_no_kernel_of_cuda_and_races_nowhere(at_once):
    assert (at_once["report"]["launches_refused"], at_once["report"]["races"]) == (0, 0)


def test_waits_only_for_ops_whose_results_depend_on_data(at_once):
    assert set(at_once["synchronous"]) <= MAY_BE_WAITED_FOR


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_gives_the_same_bits_without_a_race(at_once, schedule):
    ended = run(*EITHER_DEVICE, *DEVICE_ONLY, schedule=schedule)
    assert ended["device"] == at_once["device"]
    assert (ended["report"]["races"], ended["report"]["first_race"]) == (0, "")


def test_memory_freed_before_its_last_use_on_another_stream_is_found(special_at_once, special_on_threads):
    # On a GPU the results would be right now and then; the checker does not depend on the order that happened.
    assert special_at_once["recorded"] == special_on_threads["recorded"] == [0, 0]
    assert special_at_once["freed_too_early"] == [0, 20]
    wrong, races = special_on_threads["freed_too_early"]
    assert races == 20 and wrong > 0


def test_copies_to_the_host_are_late_unless_kernels_run_at_once(special_at_once, special_on_threads):
    assert special_at_once["copy_that_is_read_early"] == [True, True]
    assert special_on_threads["copy_that_is_read_early"] == [False, True]


def test_says_what_a_program_does_wrong_when_a_card_would():
    found = run("errors", schedule="1")["device"]["errors"]
    assert "found at least two devices, cuda:0 and cpu" in found["add"]
    assert "mat2 is on cpu, different from other tensors on cuda:0" in found["mm"]
    assert "(3x4 and 3x4)" in found["shapes"]
    assert "RuntimeError" in found["in place shapes"]
    assert "can't be cast" in found["in place type"]
    assert "emulated CUDA has no aten::_cslt_compress" in found["not emulated"]
    assert found["index, at the call"] == "none"
    assert "aten::index_select" in found["index, later"] and "AcceleratorError" in found["index, later"]


def test_two_devices_keep_their_tensors_apart():
    found = run("two_devices", schedule="1", devices=2)
    values = found["device"]["two_devices"]
    assert values["copied"] and values["cast"]
    assert [values[name] for name in ("product", "random", "dropout", "gradient")] == ["cuda:1"] * 4
    assert values["list"] == ["cuda:0", "cuda:1"]
    assert "found at least two devices, cuda:0 and cuda:1" in values["add"]
    assert "different from other tensors on cuda:0" in values["mm"]
    assert values["current"] == 0
    assert found["report"]["races"] == 0


def test_a_matrix_product_takes_the_workspace_of_cublas(special_at_once):
    workspace = 32 << 20  # of compute capability 9.0
    kept = 0 if TORCH >= (2, 15) else workspace  # from then on each product frees its own, before a stream's stayed
    assert special_at_once["memory"] == {"most": [workspace, workspace], "kept": [kept, kept]}


def test_shape_functions_are_asked_once_for_the_same_arguments(special_at_once):
    first, again = special_at_once["speed"]
    assert again < first / 10  # layer_norm's is Python code, which takes several times as long as all the rest


def test_installing_again_changes_nothing(special_at_once):
    found = special_at_once["installation"]
    assert found["again"][0] == found["again"][1] >= found["ops"] > 1100
    assert len([op for op in found["unmapped"] if op.startswith("aten::")]) < 50
