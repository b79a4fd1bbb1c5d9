"""Trains a residual network through torch.compile and prints its losses exactly."""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH = 256


class Net(nn.Module):
    def __init__(self, layers=8):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(layers))

    def forward(self, x):
        for linear, norm in zip(self.linears, self.norms):
            x = x + F.gelu(linear(norm(x))) * 0.5
        return x


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Net()
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        loss = compiled(torch.randn(2 * WIDTH, WIDTH)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


if __name__ == "__main__":
    main()
