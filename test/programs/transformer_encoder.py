"""Masked word model on nn.TransformerEncoder: dropout, padding masks, Adam with warm-up, evaluation through the fast path."""

import argparse
import math

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn

PAD, MASK = 0, 1


class MaskedWordModel(nn.Module):
    def __init__(self, words, width, heads, layers, longest):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=PAD)
        self.register_buffer("positions", self.sinusoids(longest, width))
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    @staticmethod
    def sinusoids(longest, width):
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, width)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        return table

    def forward(self, tokens):
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim) + self.positions[: tokens.size(1)]
        return self.head(self.encoder(x, src_key_padding_mask=tokens == PAD))


def synthetic_sentences(batch, length, words):
    """Arithmetic progressions modulo the vocabulary, padded to one length."""
    start = torch.randint(words - 2, (batch, 1))
    stride = torch.randint(1, 8, (batch, 1))
    tokens = 2 + (start + stride * torch.arange(length)) % (words - 2)
    lengths = torch.randint(length // 2, length + 1, (batch, 1))
    return tokens.masked_fill(torch.arange(length) >= lengths, PAD)


def hide_words(tokens, share):
    """Inputs with some words masked; targets are -100 where nothing was hidden."""
    hidden = (torch.rand(tokens.shape) < share) & (tokens != PAD)
    return tokens.masked_fill(hidden, MASK), tokens.masked_fill(~hidden, -100)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(7)
    words, width = 300, 128
    model = MaskedWordModel(words, width, heads=4, layers=args.layers, longest=args.length).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))

    def batch():
        sentences = synthetic_sentences(args.batch, args.length, words)
        return [tokens.to(args.device) for tokens in hide_words(sentences, share=0.2)]

    for step in range(args.steps):
        inputs, targets = batch()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print_step(step, loss)

    model.eval()
    with torch.inference_mode():
        inputs, targets = batch()
        found = (model(inputs).argmax(dim=-1) == targets)[targets != -100]
    print(f"found {int(found.sum())} of {found.numel()}")
    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
