"""Trains a small ResNet on Fashion-MNIST: an ordinary PyTorch program, which knows nothing of a memory budget.

All residual blocks work at one resolution, so that what is kept for the backward pass is many feature maps of one size.
"""

import argparse
import gzip
import pathlib
import struct
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from printing import digest, print_step
from torch import nn


def read_idx(path):
    """The array in a gzipped IDX file of unsigned bytes: magic, a big-endian size for each dimension, the data."""
    with gzip.open(path, "rb") as file:
        data = file.read()
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path}: not an IDX file of unsigned bytes")
    dimensions = data[3]
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    array = np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions)
    if array.size != np.prod(shape):
        raise ValueError(f"{path}: {array.size} bytes of data, its header says {'x'.join(map(str, shape))}")
    return array.reshape(shape)


def read_split(folder, name):
    return read_idx(folder / f"{name}-images-idx3-ubyte.gz"), read_idx(folder / f"{name}-labels-idx1-ubyte.gz")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        nn.init.zeros_(self.norm2.weight)  # a block starts as the identity, which lets a short schedule start fast

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + x)


class ResNet(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1, bias=False)  # 28 x 28 -> 14 x 14
        self.norm = nn.BatchNorm2d(width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.head = nn.Linear(width * 7 * 7, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        return self.head(F.avg_pool2d(self.blocks(x), 2).flatten(1))


def to_batch(images, labels, chosen, device):
    x = torch.from_numpy(images[chosen]).float().unsqueeze(1)
    x = x.div(255).sub(0.286).div(0.353)  # the training set's mean and deviation
    x = x.contiguous(memory_format=torch.channels_last)
    return x.to(device), torch.from_numpy(labels[chosen]).long().to(device)


def train(model, images, labels, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4)
    epoch_steps = len(images) // args.batch
    steps = args.epochs * epoch_steps if args.epochs else args.steps
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps, pct_start=0.3)
    order = np.random.default_rng(args.seed)
    for step in range(steps):
        if step % epoch_steps == 0:
            shuffled = order.permutation(len(images))
        at = step % epoch_steps * args.batch
        x, y = to_batch(images, labels, shuffled[at : at + args.batch], args.device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        print_step(step, loss)


def test_accuracy(model, images, labels, batch, device):
    model.eval()
    correct = 0
    with torch.no_grad():
        for chosen in np.split(np.arange(len(images)), range(batch, len(images), batch)):
            x, y = to_batch(images, labels, chosen, device)
            correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist", help="the .gz files")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--epochs", type=int, help="train for whole epochs instead of --steps")
    parser.add_argument("--width", type=int, default=32, help="channels of every feature map")
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--lr", type=float, default=0.08, help="peak of the schedule")
    parser.add_argument("--test-images", type=int, default=10000, help="how many of the 10000 to score; 0: none")
    parser.add_argument("--threads", type=int, help="default: PyTorch's choice")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    try:
        images, labels = read_split(args.data, "train")
        test_images, test_labels = read_split(args.data, "t10k")
    except (OSError, ValueError) as error:
        sys.exit(f"fashion_mnist: no Fashion-MNIST in {args.data}: {error}")
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = ResNet(args.width, args.blocks).to(args.device, memory_format=torch.channels_last)
    begin = time.perf_counter()
    train(model, images, labels, args)
    print(f"train seconds {time.perf_counter() - begin:.2f}")
    if args.test_images:
        test_images, test_labels = test_images[: args.test_images], test_labels[: args.test_images]
        accuracy = test_accuracy(model, test_images, test_labels, args.batch, args.device)
        print(f"test accuracy {accuracy:.4f} on {len(test_images)} images")
    print(f"digest {digest(model)}")


if __name__ == "__main__":
    main()
