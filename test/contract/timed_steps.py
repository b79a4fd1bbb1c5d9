"""A transformer's training steps, each timed by a pair of CUDA events as a user times them. Prints a JSON object: the milliseconds of each
step but the first, and the last loss, to the last bit. timed_steps.py WIDTH STEPS
"""

import json
import sys

import torch
from torch import nn
from torch.nn import functional as F

HEADS = 4


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before_attention, self.before_mixing = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        projected = self.projections(self.before_attention(x)).chunk(3, -1)
        q, k, v = (one.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for one in projected)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.before_mixing(x))))


def main():
    width, steps = (int(argument) for argument in sys.argv[1:])
    torch.manual_seed(0)
    model = nn.Sequential(*[Block(width) for _ in range(6)]).cuda()
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
