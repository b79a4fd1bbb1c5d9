"""Denoising autoencoder: small, and meant to be run for many steps, with batches of three sizes in turn."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, features, width, depth):
        super().__init__()
        layers = [nn.Linear(features, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(inplace=True)]
        self.net = nn.Sequential(*layers, nn.Dropout(0.1), nn.Linear(width, features))

    def forward(self, x):
        return self.net(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=128)
    args = parser.parse_args()

    torch.manual_seed(18)
    features, width = 64, 192
    basis = torch.randn(8, features)
    model = Autoencoder(features, width, depth=6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    for step in range(args.steps):
        rows = args.batch // (1 + step % 3)
        clean = torch.randn(rows, 8) @ basis
        loss = F.mse_loss(model(clean + 0.3 * torch.randn_like(clean)), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print_step(step, loss)

    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
