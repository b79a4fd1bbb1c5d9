"""A program whose ops run on two threads each, backward included: convolutions, matrix products, reductions, and a raw read between them."""

import hashlib

import torch
from torch import nn

torch.set_num_threads(2)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 24, 3, padding=1),
    nn.BatchNorm2d(24),
    nn.ReLU(),
    nn.Conv2d(24, 24, 3, padding=1),
    nn.Flatten(),
    nn.Linear(24 * 256, 64),
)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(6):
    batch = torch.randn(48, 3, 16, 16)
    loss = model(batch).square().mean() + torch.softmax(batch.flatten(1) @ torch.randn(768, 2000), 1).amax()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex(), batch.sort().values.sum().item().hex())
print(torch.get_num_threads(), torch.__config__.parallel_info().count("OpenMP") > 0)
print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
