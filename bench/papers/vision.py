"""A convolution net of torchvision, Inception-v4, OverFeat or a ResNet of 8,000 layers, on a card, trained by SGD with momentum, as the papers train theirs.

vision.py --model resnet50 --batch 32
"""

import argparse

import torch
import torchvision
from inception_v4 import inception_v4
from torch import nn
from torch.nn import functional as F
from torchvision.models.resnet import Bottleneck, ResNet

SIDES = {"inception_v3": 299, "inception_v4": 299, "overfeat": 231}
WITHOUT_AUXILIARY = {"init_weights": False, "aux_logits": False}
OPTIONS = {"inception_v3": WITHOUT_AUXILIARY, "googlenet": WITHOUT_AUXILIARY}


def overfeat() -> nn.Sequential:
    """The fast net of Sermanet et al. 2013, table 1."""
    layers = []
    for inputs, outputs, kernel, stride, padding, pools in (
        (3, 96, 11, 4, 0, True),
        (96, 256, 5, 1, 0, True),
        (256, 512, 3, 1, 1, False),
        (512, 1024, 3, 1, 1, False),
        (1024, 1024, 3, 1, 1, True),
    ):
        layers += [nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(2)] if pools else []
    layers += [nn.Flatten(), nn.Linear(1024 * 6 * 6, 3072), nn.ReLU(inplace=True), nn.Dropout()]
    layers += [nn.Linear(3072, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers)


def make(model: str) -> nn.Module:
    if model == "inception_v4":
        return inception_v4()
    if model == "overfeat":
        return overfeat()
    if model == "resnet8000":  # stages in the proportions of ResNet-2000's
        return ResNet(Bottleneck, [3, 758, 1902, 3])
    return torchvision.models.get_model(model, weights=None, **OPTIONS.get(model, {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--no-foreach", action="store_true", help="update one parameter at a time, not all in one op")
    options = parser.parse_args()
    side = SIDES.get(options.model, 224)
    model = make(options.model).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False if options.no_foreach else None)
    images = torch.randn(options.batch, 3, side, side, device="cuda")
    labels = torch.randint(1000, (options.batch,), device="cuda")
    for _ in range(options.steps):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
