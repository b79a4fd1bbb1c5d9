"""A small model to train, sized so that all its weights, gradients and activations are large enough to be paged."""

import hashlib

import torch
from torch import nn

from tensorpager import _core, stats

WIDTH, BATCH = 128, 128  # float32 squares of 64 KiB
NEED = 3 << 20  # bytes that train() needs, about
SHORT = 1 << 20  # a budget far below, and above what any of its ops requires


def make_model(seed=0, layers=6):
    torch.manual_seed(seed)
    return nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))


def train(model, steps=3, seed=0, optimizer=None):
    """The losses, exactly. Draws its batches from a generator of its own, so that threads do not meet in the global one."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        batch = torch.randn(BATCH, WIDTH, generator=generator)
        optimizer.zero_grad()
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    return losses


def digest(*tensors):
    """Of all bytes; reads them by an op."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().clone().contiguous().flatten().view(torch.uint8).numpy())
    return sha.hexdigest()


def evict():
    """Pages out everything, and makes sure that it is out."""
    _core.page_out_all()
    now = stats()
    assert now["resident_bytes"] == now["slab_bytes"] + now["export_bytes"]
    assert now["live_bytes"] > now["resident_bytes"]
