"""Inception-v4 (Szegedy, Ioffe, Vanhoucke, Alemi 2016), figures 3 to 9: torchvision has no such net."""

import torch
from torch import nn


class Convolution(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel, stride: int = 1, padding="same") -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
            nn.BatchNorm2d(outputs, eps=0.001),
            nn.ReLU(inplace=True),
        )


class Branches(nn.Module):
    """What all branches make of the same input, one after the other along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def chain(inputs: int, *convolutions) -> nn.Sequential:
    """Of (outputs, kernel) or (outputs, kernel, stride); those with a stride have no padding."""
    layers = []
    for outputs, kernel, *stride in convolutions:
        layers.append(
            Convolution(inputs, outputs, kernel, stride[0], 0) if stride else Convolution(inputs, outputs, kernel)
        )
        inputs = outputs
    return nn.Sequential(*layers)


def pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), Convolution(inputs, outputs, 1))


def halved() -> nn.Module:
    return nn.MaxPool2d(3, 2)


def stem() -> nn.Sequential:
    return nn.Sequential(
        chain(3, (32, 3, 2), (32, 3, 1), (64, 3)),
        Branches(halved(), chain(64, (96, 3, 2))),
        Branches(chain(160, (64, 1), (96, 3, 1)), chain(160, (64, 1), (64, (7, 1)), (64, (1, 7)), (96, 3, 1))),
        Branches(chain(192, (192, 3, 2)), halved()),
    )


def inception_a() -> Branches:
    return Branches(
        pooled(384, 96), chain(384, (96, 1)), chain(384, (64, 1), (96, 3)), chain(384, (64, 1), (96, 3), (96, 3))
    )


def reduction_a() -> Branches:
    return Branches(halved(), chain(384, (384, 3, 2)), chain(384, (192, 1), (224, 3), (256, 3, 2)))


def inception_b() -> Branches:
    return Branches(
        pooled(1024, 128),
        chain(1024, (384, 1)),
        chain(1024, (192, 1), (224, (1, 7)), (256, (7, 1))),
        chain(1024, (192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1))),
    )


def reduction_b() -> Branches:
    return Branches(
        halved(), chain(1024, (192, 1), (192, 3, 2)), chain(1024, (256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2))
    )


def split(inputs: int) -> Branches:
    return Branches(chain(inputs, (256, (1, 3))), chain(inputs, (256, (3, 1))))


def inception_c() -> Branches:
    return Branches(
        pooled(1536, 256),
        chain(1536, (256, 1)),
        nn.Sequential(chain(1536, (384, 1)), split(384)),
        nn.Sequential(chain(1536, (384, 1), (448, (1, 3)), (512, (3, 1))), split(512)),
    )


def inception_v4(classes: int = 1000) -> nn.Sequential:
    """Takes images of 299 x 299."""
    return nn.Sequential(
        stem(),
        *(inception_a() for _ in range(4)),
        reduction_a(),
        *(inception_b() for _ in range(7)),
        reduction_b(),
        *(inception_c() for _ in range(3)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(1536, classes),
    )
