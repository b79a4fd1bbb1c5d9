"""Convolutional classifier with a wide MLP head, trained with AdamW(foreach=True): each update is a few ops over all parameters."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


def conv_stage(inputs, outputs):
    layers = []
    for channels in (inputs, outputs, outputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2))


class Classifier(nn.Module):
    def __init__(self, classes, hidden=256):
        super().__init__()
        self.features = nn.Sequential(conv_stage(3, 16), conv_stage(16, 32), conv_stage(32, 48), nn.Flatten())
        self.head = nn.Sequential(
            nn.Linear(48 * 4 * 4, hidden),
            nn.LeakyReLU(0.1),
            nn.Linear(hidden, hidden),
            nn.LeakyReLU(0.1),
            nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return self.head(self.features(x))


def parameter_groups(model, weight_decay):
    """Norm scales and biases are not decayed."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(1)
    classes = 20
    model = Classifier(classes).to(args.device)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.05), lr=1e-3, betas=(0.9, 0.98), amsgrad=True, foreach=True)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=args.steps)
    prototypes = torch.randn(classes, 3, 32, 32).to(args.device)

    for step in range(args.steps):
        labels = torch.randint(classes, (args.batch,)).to(args.device)
        images = prototypes[labels] + torch.randn(args.batch, 3, 32, 32).to(args.device)
        if step % 2:
            images = images.flip(-1)
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        warmup.step()
        print_step(step, loss)

    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
