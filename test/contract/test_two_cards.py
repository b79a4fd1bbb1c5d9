"""A program that uses two cards, of which the first is paged: its bits are as without a budget, while either card is the current one."""

import json

import pytest
from launch import emulated_python, run_command
from marks import needs_emulated_card

pytestmark = needs_emulated_card
BUDGET = 5 << 20
PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
first, second = torch.device("cuda:0"), torch.device("cuda:1")


def layers():
    return nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(6)))


below, above = layers().to(first), layers().to(second)
optimizer = torch.optim.Adam([*below.parameters(), *above.parameters()], 1e-3)
stream = torch.cuda.Stream(second)
for step in range(6):
    loss = above(below(torch.randn(512, 256).to(first)).to(second)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.cuda.device(second), torch.cuda.stream(stream):
        many = [torch.full((1 << 18,), float(i), device=first) for i in range(8)]
        there = torch.stack([one.to(second, non_blocking=True) for one in many])
        for one in many:
            one.record_stream(stream)
        del many, one
        print(step, loss.item().hex(), there.sum().item())
"""


@pytest.mark.parametrize("schedule", ["now", "1"])
def test_a_program_on_two_cards_keeps_its_bits(schedule, tmp_path):
    program, file = tmp_path / "program.py", tmp_path / "stats.json"
    program.write_text(PROGRAM)
    variables = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}  # else more of a card than the budget
    card, command = ("--emulate", "2xh100-80g", "--emulate-seed", schedule), ("--", *emulated_python(), program)
    plain = run_command("run", *card, *command, variables=variables)
    assert plain.returncode == 0, plain.stderr[-3000:]
    options = ("--device", "cuda", "--budget", BUDGET, "--stats", file)
    paged = run_command("run", *card, *options, *command, variables=variables)
    assert (paged.returncode, paged.stdout) == (0, plain.stdout), paged.stderr[-3000:]
    stats = json.loads(file.read_text())
    assert stats["emulation"]["races"] == 0, stats["emulation"]["first_race"]
    assert stats["peak_bytes"] <= BUDGET and stats["page_ins"] > 0
