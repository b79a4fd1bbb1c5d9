"""Training by hand with in-place ops and views: slices, strides, scatter, index_put, fft, and a momentum buffer written in place."""

import argparse
import math

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step


def init(device, *shape):
    return torch.randn(*shape).to(device).div_(math.sqrt(shape[0])).requires_grad_()


def windows(x, size, hop):
    """Overlapping windows of the last dimension, without a copy."""
    count = (x.size(-1) - size) // hop + 1
    return x.as_strided((x.size(0), count, size), (x.stride(0), hop, 1))


def spectral_features(signal, filters):
    spectrum = torch.fft.rfft(windows(signal, 256, 128))
    filtered = torch.view_as_real(spectrum * torch.view_as_complex(filters))
    power = filtered.square().sum(dim=-1)
    return torch.log1p(power).transpose(1, 2)


def mix(x, mixing):
    """Every op here returns a view or writes into its input."""
    left, right = x.chunk(2, dim=1)
    y = torch.cat([right, left], dim=1).mul_(0.5)
    y[:, ::2].add_(x[:, 1::2])
    y[:, 1::2, :-1] -= x[:, ::2, 1:]
    y = y.transpose(1, 2).matmul(mixing.t()).transpose(1, 2).contiguous()
    y.add_(y.mean(dim=2, keepdim=True).expand_as(y), alpha=-0.1)
    y.masked_fill_(y > 4.0, 4.0).relu_()
    parts = [part.flip(-1) if index % 2 else part for index, part in enumerate(y.split(16, dim=1))]
    return torch.stack(parts, dim=1).flatten(1, 2)


def pool(x, buckets):
    """Sums frames into buckets; the buckets overlap, so the order of additions matters."""
    batch, bands, frames = x.shape
    index = (torch.arange(frames, device=x.device) * 7 % buckets).expand(batch, bands, frames)
    pooled = torch.zeros(batch, bands, buckets, device=x.device).scatter_add_(2, index, x)
    rows = torch.arange(batch, device=x.device).repeat_interleave(2)
    columns = torch.tensor([0, buckets - 1], device=x.device).repeat(batch)
    pooled = pooled.index_put((rows, torch.zeros_like(rows), columns), x[:, 0, :2].reshape(-1), accumulate=True)
    return pooled.permute(0, 2, 1).reshape(batch, -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=56)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(13)
    classes, bands, buckets = 8, 128, 12
    shapes = {"filters": (129, 2), "bands": (129, bands), "head": (bands * buckets, classes)}
    shapes |= {f"mix{index}": (bands, bands) for index in range(10)}
    weights = {name: init(args.device, *shape) for name, shape in shapes.items()}
    momentum = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    counts = torch.zeros(classes, dtype=torch.long, device=args.device)
    time = torch.arange(args.samples, device=args.device) / args.samples

    for step in range(args.steps):
        labels = torch.randint(classes, (args.batch,)).to(args.device)
        pitch = (40.0 * (1 + labels)).unsqueeze(1)
        noise = torch.randn(args.batch, args.samples).to(args.device)
        signal = torch.sin(2 * math.pi * pitch * time).add_(noise, alpha=0.3)
        signal[:, : args.samples // 8].zero_()

        x = torch.einsum("bft,fm->bmt", spectral_features(signal, weights["filters"]), weights["bands"])
        for index in range(10):
            x = mix(x, weights[f"mix{index}"])
        loss = F.cross_entropy(pool(x, buckets) @ weights["head"], labels)
        gradients = torch.autograd.grad(loss, list(weights.values()))

        with torch.no_grad():
            for (name, weight), gradient in zip(weights.items(), gradients):
                momentum[name].mul_(0.9).add_(gradient)
                weight.sub_(momentum[name], alpha=0.01)
        counts.scatter_add_(0, labels, torch.ones_like(labels))
        print_step(step, loss)

    print(f"labels {counts.tolist()}")
    print_digest(weights, momentum)


if __name__ == "__main__":
    main()
