"""A transformer's training steps, each timed by a pair of CUDA events as a user times them. Prints a JSON object: the milliseconds of each
step but the first, and the last loss, to the last bit. timed_steps.py WIDTH STEPS
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from workloads import Block

HEADS = 4


def main():
    width, steps = (int(argument) for argument in sys.argv[1:])
    torch.manual_seed(0)
    model = nn.Sequential(*[Block(width, HEADS) for _ in range(6)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 64, width, device="cuda")
    marks = []
    for _ in range(steps):
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    times = [begin.elapsed_time(end) for begin, end in zip(marks[1:], marks[2:], strict=False)]
    print(json.dumps({"milliseconds": times, "loss": loss.item().hex()}))


if __name__ == "__main__":
    main()
