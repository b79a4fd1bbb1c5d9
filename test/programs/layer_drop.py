"""Speech to letters: a convolution, a transformer of which each step leaves out layers at random (LayerDrop), CTC, Adam with warm-up."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


class Encoder(nn.Module):
    """Batch x coefficients x frames in; frames / 2 x batch x letters out, as logarithms of probabilities."""

    def __init__(self, coefficients, width, layers, letters, layer_drop):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(coefficients, width, 5, stride=2, padding=2), nn.GELU())
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters)
        self.layer_drop = layer_drop

    def forward(self, speech):
        x = self.front(speech).transpose(1, 2)
        for layer in self.layers:
            if self.training and torch.rand(()).item() < self.layer_drop:
                continue
            x = layer(x)
        return self.head(self.norm(x)).log_softmax(-1).transpose(0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frames", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(23)
    letters, spoken = 30, 12
    model = Encoder(coefficients=40, width=192, layers=args.layers, letters=letters, layer_drop=0.1).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 8))
    lengths = torch.full((args.batch,), args.frames // 2), torch.full((args.batch,), spoken)

    for step in range(args.steps):
        speech = torch.randn(args.batch, 40, args.frames).to(args.device)
        words = torch.randint(1, letters, (args.batch, spoken)).to(args.device)
        loss = F.ctc_loss(model(speech), words, *lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print_step(step, loss)

    model.eval()
    with torch.no_grad():
        speech = torch.randn(args.batch, 40, args.frames).to(args.device)
        print(f"best {model(speech).argmax(-1).sum().item()}")
    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
