"""U-Net for segmentation: skip connections by cat, transposed convolutions, cross-entropy plus Dice loss, SGD."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


def conv_stage(inputs, outputs):
    layers = []
    for channels in (inputs, outputs, outputs):
        layers += [
            nn.Conv2d(channels, outputs, 3, padding=1, bias=False),
            nn.InstanceNorm2d(outputs, affine=True),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, channels, classes, width, depth):
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(conv_stage(i, o) for i, o in zip([channels, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(conv_stage(2 * w, w) for w in reversed(widths[:-1]))
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


def synthetic_scenes(batch, size, classes):
    """Each pixel belongs to the nearest of a few random centres; the image is the class's shade with noise."""
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij"), dim=-1).float()
    centres = size * torch.rand(batch, 1, 1, 2 * classes, 2)
    nearest = (grid[None, :, :, None, :] - centres).square().sum(dim=-1).argmin(dim=-1)
    labels = nearest % classes
    shades = torch.linspace(-1, 1, classes)
    return shades[labels].unsqueeze(1) + 0.3 * torch.randn(batch, 1, size, size), labels


def dice_loss(logits, labels):
    probability = logits.softmax(dim=1)
    truth = F.one_hot(labels, logits.size(1)).permute(0, 3, 1, 2).to(probability.dtype)
    overlap = (probability * truth).sum(dim=(2, 3))
    return 1 - (2 * overlap / (probability.sum(dim=(2, 3)) + truth.sum(dim=(2, 3)) + 1e-6)).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=5)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(9)
    classes = 4
    model = UNet(1, classes, args.width, depth=3).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)

    for step in range(args.steps):
        images, labels = (t.to(args.device) for t in synthetic_scenes(args.batch, args.size, classes))
        logits = model(images)
        loss = F.cross_entropy(logits, labels) + dice_loss(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print_step(step, loss)
        print(f"pixels right {(logits.argmax(dim=1) == labels).float().mean().item():.6f}")

    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
