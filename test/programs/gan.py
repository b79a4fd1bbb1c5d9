"""DCGAN on synthetic images: two networks, two optimizers, spectral norm in the critic, every graph freed in its own step."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


class Generator(nn.Module):
    def __init__(self, latent, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(latent, 4 * width, 4, bias=False),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(True),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(True),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(True),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GELU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z[:, :, None, None])


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            spectral_norm(nn.Conv2d(1, width, 4, 2, 1)),
            nn.LeakyReLU(0.2, inplace=True),
            spectral_norm(nn.Conv2d(width, width, 3, padding=1)),
            nn.SiLU(),
            spectral_norm(nn.Conv2d(width, width, 3, padding=1)),
            nn.SiLU(),
            spectral_norm(nn.Conv2d(width, 2 * width, 4, 2, 1)),
            nn.LeakyReLU(0.2, inplace=True),
            spectral_norm(nn.Conv2d(2 * width, 4 * width, 4, 2, 1)),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Flatten(),
            spectral_norm(nn.Linear(4 * width * 16, 1)),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def real_images(batch):
    """Stripes of random direction and frequency."""
    axis = torch.linspace(-3.14, 3.14, 32)
    direction = 4 * torch.randn(batch, 2, 1, 1)
    phase = 6.28 * torch.rand(batch, 1, 1)
    return torch.sin(direction[:, 0] * axis[:, None] + direction[:, 1] * axis[None, :] + phase).unsqueeze(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=80)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--latent", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(10)
    generator, critic = Generator(args.latent, args.width).to(args.device), Critic(args.width).to(args.device)
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    ones, zeros = torch.ones(args.batch, device=args.device), torch.zeros(args.batch, device=args.device)

    for step in range(args.steps):
        fake = generator(torch.randn(args.batch, args.latent).to(args.device))

        critic_optimizer.zero_grad()
        real = real_images(args.batch).to(args.device)
        loss_real = F.binary_cross_entropy_with_logits(critic(real), 0.9 * ones)
        loss_real.backward()
        loss_fake = F.binary_cross_entropy_with_logits(critic(fake.detach()), zeros)
        loss_fake.backward()
        critic_optimizer.step()

        generator_optimizer.zero_grad()
        generator_loss = F.binary_cross_entropy_with_logits(critic(fake), ones)
        generator_loss.backward()
        generator_optimizer.step()

        print_step(step, loss_real + loss_fake)
        print_step(step, generator_loss)

    print_digest(generator, critic, generator_optimizer, critic_optimizer)


if __name__ == "__main__":
    main()
