"""On a CUDA device ops run again, too, and plans that page, recompute or both take the time that they promise: on the emulated card, whose
clock runs by the rates of its machine file.
"""

import json
import sys

import pytest
from launch import HERE
from marks import needs_emulated_card
from test_cuda_paging import MIB, PROGRAMS, check_paged, run, share_of

sys.path.insert(0, str(PROGRAMS))
from cases import PROGRAMS as NAMES

pytestmark = needs_emulated_card
STEPS = HERE / "timed_steps.py"
CLOCK = ["--emulate-clock", "card"]
# Tries an op, as in test/programs/forks.py. Drops at random leave the arena in pieces: of the need the programs have 0.7, or this.
SHARES = {"lstm": 1.3, "packed_lstm": 1.5}
DROPPING = {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "TENSORPAGER_FUZZ_DROPS": "8", "TENSORPAGER_FUZZ_EVICTIONS": "1"}


def promised(folder, width, share, *options, steps=16):
    """The statistics of a run under a plan, the milliseconds of its last step, and those of a step without a budget."""
    plain, need, _ = run(folder, STEPS, width, steps, options=CLOCK)
    budget = share_of(need, share)
    planned, stats, _ = run(folder, STEPS, width, steps, budget=budget, options=[*CLOCK, "--plan-sync", *options])
    assert json.loads(planned)["loss"] == json.loads(plain)["loss"]
    check_paged(stats, budget)
    # The first window under a plan may begin with other blocks resident than it plans.
    assert stats["windows_as_planned"] >= stats["followed_windows"] - stats["plans"] > 4
    return stats, json.loads(planned)["milliseconds"][-1], json.loads(plain)["milliseconds"][-1]


def test_without_a_budget_each_step_takes_the_same_time_on_the_cards_clock(tmp_path):
    plain, stats, _ = run(tmp_path, STEPS, 128, 6, options=CLOCK)
    times = json.loads(plain)["milliseconds"][1:]
    assert max(times) - min(times) < 1e-3 * times[0]
    assert stats["emulation"]["card_microseconds"] > 1e3 * sum(times)


@pytest.mark.parametrize(("width", "share"), [(128, 0.75), (128, 0.5), (384, 0.6)])
def test_a_step_takes_what_its_plan_promises(width, share, tmp_path):
    stats, took, plain = promised(tmp_path, width, share, "--recompute=0")
    assert stats["drops"] == 0
    assert stats["predicted_window_seconds"] * 1e3 == pytest.approx(took, rel=0.05)
    assert took > plain


def test_a_plan_that_recomputes_is_faster_and_takes_what_it_promises(tmp_path):
    _, paged, _ = promised(tmp_path, 128, 0.6, "--recompute=0")
    stats, took, _ = promised(tmp_path, 128, 0.6)  # by default
    assert stats["drops"] == stats["rebuilds"] > 0 and stats["replay_differences"] == 0
    assert stats["predicted_window_seconds"] * 1e3 == pytest.approx(took, rel=0.05)
    assert took < 0.75 * paged


@pytest.mark.parametrize("schedule", ["2", "threads"])
def test_a_recomputing_plan_keeps_the_bits_in_every_order_of_kernels(schedule, tmp_path):
    plain, need, _ = run(tmp_path, STEPS, 128, 34)
    budget = share_of(need, 0.6)
    options = [*CLOCK, "--plan-sync"]
    paged, stats, _ = run(tmp_path, STEPS, 128, 34, budget=budget, schedule=schedule, options=options)
    assert json.loads(paged)["loss"] == json.loads(plain)["loss"]
    check_paged(stats, budget)
    assert stats["drops"] == stats["rebuilds"] > 0
    # However far the card is behind, plans are made after the same steps.
    assert stats["windows_as_planned"] >= stats["followed_windows"] - stats["plans"] > 20


# The steps of seq2seq vary. In dropout an op frees 80 KiB when it runs, which its trace says are free when the op before it
# ends: the two replays between these ops begin with so much more than planned.
NOT_AS_PLANNED = (("seq2seq", 0.5), ("dropout", 0.3))


# The first plans page; after some steps one is made that recomputes as well.
@pytest.mark.parametrize(
    ("program", "share"),
    [
        ("unet", 0.3),
        ("dropout", 0.5),
        *(
            pytest.param(program, share, marks=pytest.mark.slow)
            for program in ("gpt", "resnet", "transformer_encoder", "unet", "checkpointing")
            for share in (0.5, 0.3)
            if (program, share) != ("unet", 0.3)
        ),
        pytest.param("seq2seq", 0.5, marks=pytest.mark.slow),
        pytest.param("dropout", 0.3, marks=pytest.mark.slow),
    ],
)
def test_a_program_under_plans_that_recompute_keeps_its_bits(program, share, tmp_path):
    arguments = [PROGRAMS / f"{program}.py", "--device", "cuda", "--steps", 28]
    plain, need, _ = run(tmp_path, *arguments)
    budget = share_of(need, share)
    options = [*CLOCK, "--plan-sync"]
    paged, stats, _ = run(tmp_path, *arguments, budget=budget, schedule="2", options=options)
    assert paged == plain
    check_paged(stats, budget)
    assert stats["drops"] == stats["rebuilds"] > 10 and stats["replay_differences"] == 0
    # Hardly two steps of seq2seq have the same lengths.
    assert (program, share) in NOT_AS_PLANNED or stats["windows_as_planned"] >= stats["followed_windows"] - stats[
        "plans"
    ] > 12


def dropped(folder, *arguments, budget, seed):
    """The output of a run that drops at random what can be rebuilt."""
    options = ["--on-demand", "--fuzz", seed]
    paged, stats, _ = run(
        folder, *arguments, budget=budget, schedule=str(seed), options=options, variables=DROPPING, seconds=200
    )
    assert (stats["emulation"]["races"], stats["emulation"]["first_race"]) == (0, "")
    assert stats["peak_bytes"] <= budget and stats["replay_differences"] == 0
    assert stats["drops"] > 20 and stats["rebuilds"] > 0
    return paged


# With several streams a replay runs in another than its op did.
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_drops_at_random_change_nothing_with_two_streams(seed, tmp_path):
    arguments = [HERE / "paging_programs.py", "two_streams", 0]
    plain, _, _ = run(tmp_path, *arguments)
    paged = dropped(tmp_path, *arguments, budget=64 * MIB, seed=seed)
    assert json.loads(paged)["digest"] == json.loads(plain)["digest"]


@pytest.mark.parametrize(
    "program", [pytest.param(name, marks=[] if name == "gpt" else [pytest.mark.slow]) for name in NAMES]
)
def test_drops_at_random_change_nothing(program, tmp_path):
    arguments = [PROGRAMS / f"{program}.py", "--device", "cuda", "--steps", 3]
    plain, need, _ = run(tmp_path, *arguments)
    budget = share_of(need, SHARES.get(program, 0.7))
    assert dropped(tmp_path, *arguments, budget=budget, seed=2) == plain


# By the default generator, and by one of the program's.
DRAWS = """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
own = torch.Generator("cuda").manual_seed(1)
weights = [(torch.randn(256, 256) / 16).cuda().requires_grad_() for _ in range(4)]
for step in range(3):
    x = torch.randn(512, 256, device="cuda")
    for weight in weights:
        x = F.dropout(x @ weight, 0.3)
        x = F.alpha_dropout(x.tanh(), 0.2)
        x = x * torch.empty_like(x).bernoulli_(0.5, generator=own) + 0.1 * torch.rand_like(x)
    x.square().sum().backward()
    print(*(weight.grad.sum().item().hex() for weight in weights))
print(torch.rand(4, device="cuda").tolist(), torch.rand(4, device="cuda", generator=own).tolist())
"""


def test_what_draws_of_the_device_made_is_drawn_again(tmp_path):
    program = tmp_path / "draws.py"
    program.write_text(DRAWS)
    plain, need, _ = run(tmp_path, program)
    assert dropped(tmp_path, program, budget=share_of(need, 0.9), seed=3) == plain
