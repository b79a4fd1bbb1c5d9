"""Residual network with batch norm on small images: SGD with momentum, cosine schedule, an evaluation after each epoch."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
        blocks, channels = [], width
        for stage in range(3):
            for index in range(depth):
                outputs = width << stage
                blocks.append(Block(channels, outputs, stride=2 if stage and index == 0 else 1))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def synthetic_images(count, classes):
    """Each class is a coarse pattern, and each image is its pattern with noise."""
    labels = torch.randint(classes, (count,))
    patterns = F.interpolate(torch.randn(classes, 3, 4, 4), scale_factor=8, mode="nearest")
    return patterns[labels] + 0.5 * torch.randn(count, 3, 32, 32), labels


def evaluate(model, images, labels, batch):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in zip(images.split(batch), labels.split(batch)):
            correct += (model(x).argmax(dim=1) == y).sum().item()
    return correct / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps-per-epoch", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = ResNet(width=24, depth=3, classes=10).to(args.device)
    train_images, train_labels = synthetic_images(args.batch * args.steps_per_epoch, classes=10)
    test_images, test_labels = synthetic_images(args.batch * 2, classes=10)
    train_images, train_labels = train_images.to(args.device), train_labels.to(args.device)
    test_images, test_labels = test_images.to(args.device), test_labels.to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)

    step = 0
    while step < args.steps:
        model.train()
        for index in torch.randperm(len(train_labels)).to(args.device).split(args.batch):
            loss = F.cross_entropy(model(train_images[index]), train_labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            print_step(step, loss)
            step += 1
            if step == args.steps:
                break
        print(f"accuracy {evaluate(model, test_images, test_labels, args.batch):.4f}")

    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
