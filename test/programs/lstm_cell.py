"""Time series forecaster: two nn.LSTMCell unrolled by hand, fed with its own predictions past the observed part; Adam."""

import argparse
import math

import torch
from _digest import print_digest, print_step
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.hidden = hidden
        self.cell1 = nn.LSTMCell(channels, hidden)
        self.cell2 = nn.LSTMCell(hidden, hidden)
        self.readout = nn.Linear(hidden, channels)

    def forward(self, series, future):
        batch = series.size(0)
        h1, c1, h2, c2 = (torch.zeros(batch, self.hidden, device=series.device) for _ in range(4))
        outputs = []
        for x in series.unbind(dim=1):
            h1, c1 = self.cell1(x, (h1, c1))
            h2, c2 = self.cell2(h1, (h2, c2))
            outputs.append(self.readout(h2))
        for _ in range(future):
            h1, c1 = self.cell1(outputs[-1], (h1, c1))
            h2, c2 = self.cell2(h1, (h2, c2))
            outputs.append(self.readout(h2))
        return torch.stack(outputs, dim=1)


def synthetic_series(batch, length, channels):
    """Sine waves of random phase and period, one a channel."""
    phase = 2 * math.pi * torch.rand(batch, 1, channels)
    period = 10 + 30 * torch.rand(batch, 1, channels)
    time = torch.arange(length).view(1, length, 1)
    return torch.sin(2 * math.pi * time / period + phase)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--future", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(5)
    channels = 16
    model = Forecaster(channels, hidden=128).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.MSELoss()

    for step in range(args.steps):
        series = synthetic_series(args.batch, args.length + args.future + 1, channels).to(args.device)
        predicted = model(series[:, : args.length], args.future)
        loss = criterion(predicted, series[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print_step(step, loss)

    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
