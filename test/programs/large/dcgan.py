"""DCGAN: a generator and a critic that train against each other on synthetic images; two Adam optimizers."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


def make_generator(latent, width, doublings):
    """From a vector to an image of 8 << doublings pixels a side."""
    channels = width << doublings
    layers = [nn.ConvTranspose2d(latent, channels, 4, bias=False), nn.BatchNorm2d(channels), nn.ReLU(True)]
    for _ in range(doublings):
        layers += [nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(channels // 2), nn.ReLU(True)]
        channels //= 2
    return nn.Sequential(*layers, nn.ConvTranspose2d(channels, 3, 4, 2, 1), nn.Tanh())


def make_critic(width, doublings):
    layers, channels = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True)], width
    for _ in range(doublings):
        layers += [nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(2 * channels), nn.LeakyReLU(0.2, True)]
        channels *= 2
    return nn.Sequential(*layers, nn.Conv2d(channels, 1, 4), nn.Flatten(0))


def initialise(module):
    """As the paper does."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--size", type=int, default=128, help="of images: 16, 32, 64, ...")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--latent", type=int, default=100)
    args = parser.parse_args()

    torch.manual_seed(4)
    doublings = int(math.log2(args.size)) - 3
    generator = make_generator(args.latent, args.width, doublings).apply(initialise).to(args.device)
    critic = make_critic(args.width, doublings).apply(initialise).to(args.device)
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    ones, zeros = torch.ones(args.batch, device=args.device), torch.zeros(args.batch, device=args.device)

    for step in range(args.steps):
        real = torch.rand(args.batch, 3, args.size, args.size).to(args.device).mul_(2).sub_(1)
        fake = generator(torch.randn(args.batch, args.latent, 1, 1, device=args.device))

        critic_optimizer.zero_grad()
        loss_real = F.binary_cross_entropy_with_logits(critic(real), ones)
        loss_real.backward()
        loss_fake = F.binary_cross_entropy_with_logits(critic(fake.detach()), zeros)
        loss_fake.backward()
        critic_optimizer.step()

        generator_optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(critic(fake), ones)
        loss.backward()
        generator_optimizer.step()
        print(f"step {step} critic {(loss_real + loss_fake).item():.4f} generator {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
