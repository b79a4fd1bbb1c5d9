"""Residual MLP for tabular regression, trained with AdamW(fused=True) under a one-cycle schedule."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


class ResidualLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Regressor(nn.Module):
    def __init__(self, columns, width, depth):
        super().__init__()
        self.embed = nn.Linear(columns, width)
        self.layers = nn.ModuleList(ResidualLayer(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)).squeeze(-1)


def synthetic_table(rows, columns):
    """A target that depends on products of columns, so that a linear model does not fit it."""
    table = torch.randn(rows, columns)
    target = (table[:, ::2] * table[:, 1::2]).sum(dim=1) / columns**0.5 + 0.1 * torch.randn(rows)
    return table, target


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(2)
    table, target = (t.to(args.device) for t in synthetic_table(2 * args.batch, 32))
    mean, deviation = table.mean(dim=0), table.std(dim=0)
    model = Regressor(32, args.width, args.depth).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=args.steps)

    for step in range(args.steps):
        index = torch.randint(len(table), (args.batch,)).to(args.device)
        prediction = model((table[index] - mean) / deviation)
        loss = F.smooth_l1_loss(prediction, target[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print_step(step, loss)

    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
