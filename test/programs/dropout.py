"""Everything random at once: all kinds of dropout, stochastic depth, noise, random ReLU, and a generator of the program's own."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


class NoisyConv(nn.Module):
    def __init__(self, channels, keep):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.drop = nn.Dropout2d(0.2)
        self.keep = keep

    def forward(self, x):
        branch = F.rrelu(self.drop(self.conv(x)), training=self.training)
        if self.training:
            alive = torch.empty(len(x), 1, 1, 1, device=x.device).bernoulli_(self.keep)
            branch = branch * alive / self.keep
        return x + branch


class NoisyNet(nn.Module):
    def __init__(self, classes, channels=24, hidden=256):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 4, stride=2, padding=1)
        self.blocks = nn.Sequential(*(NoisyConv(channels, keep=1 - 0.1 * i) for i in range(1, 6)))
        self.flatten = nn.Sequential(nn.AvgPool2d(2), nn.Flatten())
        self.hidden = nn.Sequential(
            nn.Linear(channels * 64, hidden),
            nn.SELU(),
            nn.AlphaDropout(0.1),
            nn.Linear(hidden, hidden),
            nn.SELU(inplace=True),
            nn.FeatureAlphaDropout(0.05),
            nn.Dropout(0.5, inplace=True),
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        x = self.blocks(F.dropout(torch.tanh(self.stem(x)), 0.1, self.training))
        if self.training:
            x = x + 0.05 * torch.randn_like(x) + torch.empty_like(x).uniform_(-0.05, 0.05)
        return self.head(self.hidden(self.flatten(x)))


def augment(images, generator):
    """Random crop by rolling and random erasing, from the generator of the data and not from the global one."""
    shift = torch.randint(-4, 5, (2,), generator=generator).tolist()
    images = torch.roll(images, shift, dims=(2, 3))
    erased = torch.rand(images[:, :1].shape, generator=generator) < 0.1
    return images.masked_fill(erased.to(images.device), 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=80)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(11)
    generator = torch.Generator().manual_seed(12)
    classes = 10
    model = NoisyNet(classes).to(args.device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    images = torch.randn(2 * args.batch, 3, 32, 32, generator=generator).to(args.device)
    labels = torch.randint(classes, (2 * args.batch,), generator=generator).to(args.device)

    for step in range(args.steps):
        chosen = torch.randperm(len(images), generator=generator)[: args.batch].to(args.device)
        saved = torch.get_rng_state()
        loss = F.cross_entropy(model(augment(images[chosen], generator)), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print_step(step, loss)
        if step == 1:  # the same random numbers once more, with the new weights
            torch.set_rng_state(saved)
            print(f"again {F.cross_entropy(model(images[chosen]), labels[chosen]).item().hex()}")

    print_digest(model, optimizer, torch.get_rng_state(), generator.get_state())


if __name__ == "__main__":
    main()
