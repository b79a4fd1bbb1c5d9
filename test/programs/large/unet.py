"""U-Net as in its paper, with padding and batch norm: segmentation of synthetic images; SGD with high momentum."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def two_convolutions(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, channels, classes, width, depth):
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(two_convolutions(i, o) for i, o in zip([channels, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(two_convolutions(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for level, stage in enumerate(self.down):
            x = stage(x if level == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=512, help="of images: a multiple of 2 to the depth")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--classes", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(5)
    model = UNet(3, args.classes, args.width, args.depth).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.99)

    for step in range(args.steps):
        images = torch.randn(args.batch, 3, args.size, args.size)
        labels = (images.mean(dim=1) > 0).long() % args.classes
        logits = model(images.to(args.device))
        loss = F.cross_entropy(logits, labels.to(args.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
