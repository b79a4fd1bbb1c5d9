"""Programs whose ops take turns on three streams of the emulated card, under a budget."""

import pytest
from marks import needs_emulated_card, slow
from test_cuda_paging import LARGE_FLOORS, NAMES, PROGRAMS, check_paged, run, share_of

pytestmark = needs_emulated_card
IN_STREAMS = [PROGRAMS / "in_streams.py", 3]
KERNELS = {"packed_lstm": 3}  # that ops launch at most, on average, else 2: an LSTM's op launches several
OPTIONS = ["--plan-sync", "--emulate-clock", "card"]  # by whose rates it is worth while to recompute


def words(program, steps):
    return [PROGRAMS / f"{program}.py", "--device", "cuda", "--steps", steps]


@pytest.mark.parametrize("program", ["gpt", *(slow(name) for name in NAMES if name != "gpt")])
def test_ops_that_take_turns_on_three_streams_have_the_bits_of_one(program, tmp_path):
    one, _, _ = run(tmp_path, *words(program, 16))
    three, need, _ = run(tmp_path, *IN_STREAMS, *words(program, 16))
    assert three == one and need["emulation"]["races"] == 0
    assert need["emulation"]["stream_waits"] > need["emulation"]["kernels"] / KERNELS.get(program, 2), (
        "the streams take turns"
    )
    budget = share_of(need, LARGE_FLOORS.get(program, 0.5))
    paged, stats, _ = run(tmp_path, *IN_STREAMS, *words(program, 16), budget=budget, schedule="1", options=OPTIONS)
    assert paged == one
    check_paged(stats, budget)
    if program == "gpt":  # record_stream() writes nothing: what it is called for can be made again
        assert stats["drops"] == stats["rebuilds"] > 20
        assert stats["windows_as_planned"] >= stats["followed_windows"] - stats["windows_of_comparisons"] > 5


@pytest.mark.parametrize("in_streams", [[], IN_STREAMS], ids=["one", "three"])
def test_under_a_plan_the_host_waits_only_where_the_program_does(in_streams, tmp_path):
    def waits(steps, **options):
        _, stats, _ = run(tmp_path, *in_streams, *words("gpt", steps), schedule="1", **options)
        return stats["emulation"]["host_waits"], stats

    few, need = waits(16)
    many, _ = waits(32)
    paged = {"budget": share_of(need, 0.6), "options": OPTIONS}
    paged_few, _ = waits(16, **paged)
    paged_many, stats = waits(32, **paged)
    assert many - few >= 16, "the program reads its loss in each step"
    assert paged_many - paged_few <= many - few
    assert stats["followed_windows"] > 16 and stats["page_ins"] > 32
