"""Gradient accumulation over micro-batches, clip_grad_norm_, and an exponential moving average of the weights for evaluation."""

import argparse
import copy

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


class MixerLayer(nn.Module):
    """Mixes tokens, then channels."""

    def __init__(self, tokens, channels):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channels = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GELU(), nn.Linear(2 * channels, channels))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, classes, channels, depth):
        super().__init__()
        self.patches = nn.Conv2d(3, channels, kernel_size=4, stride=4)
        self.layers = nn.Sequential(*(MixerLayer(64, channels) for _ in range(depth)))
        self.head = nn.Linear(channels, classes)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, images):
        self.seen += len(images)
        x = self.patches(images).flatten(2).transpose(1, 2)
        return self.head(self.layers(x).mean(dim=1))


@torch.no_grad()
def update_average(average, model, decay):
    for slow, fast in zip(average.parameters(), model.parameters()):
        slow.lerp_(fast, 1 - decay)
    for slow, fast in zip(average.buffers(), model.buffers()):
        slow.copy_(fast)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--micro-batches", type=int, default=3)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--channels", type=int, default=160)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(14)
    classes = 10
    model = Mixer(classes, args.channels, args.depth).to(args.device)
    average = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    prototypes = torch.randn(classes, 3, 32, 32).to(args.device)

    for step in range(args.steps):
        total = 0.0
        optimizer.zero_grad(set_to_none=False)
        for _ in range(args.micro_batches):
            labels = torch.randint(classes, (args.batch,)).to(args.device)
            images = prototypes[labels] + 0.8 * torch.randn(args.batch, 3, 32, 32).to(args.device)
            loss = F.cross_entropy(model(images), labels) / args.micro_batches
            loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        update_average(average, model, decay=0.9)
        print_step(step, total)
        print(f"gradient norm {norm.item().hex()}")

        with torch.no_grad():
            labels = torch.arange(classes, device=args.device)
            print(f"average model {F.cross_entropy(average(prototypes), labels).item().hex()}")

    print_digest(model, average, optimizer)


if __name__ == "__main__":
    main()
