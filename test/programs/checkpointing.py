"""Activation checkpointing in both modes: half of the blocks reentrant, half not, dropout inside, and one checkpoint_sequential."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(3 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Network(nn.Module):
    def __init__(self, inputs, classes, width, heads, blocks):
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.tail = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.embed(x)
        for index, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=index % 2 == 0)
        x = checkpoint_sequential(self.tail, 2, x, use_reentrant=False)
        return self.head(x.mean(dim=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(15)
    inputs, classes = 32, 16
    model = Network(inputs, classes, args.width, heads=4, blocks=args.blocks).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    key = torch.randn(inputs, classes).to(args.device)

    for step in range(args.steps):
        x = torch.randn(args.batch, args.length, inputs).to(args.device)
        labels = (x.sum(dim=1) @ key).argmax(dim=1)
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print_step(step, loss)

    print_digest(model, optimizer, torch.get_rng_state())


if __name__ == "__main__":
    main()
