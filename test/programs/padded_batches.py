"""Sentences of different lengths, each batch padded to its longest: a transformer classifier with a key padding mask; AdamW, gradient clipping."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn
from torch.nn.utils.rnn import pad_sequence

PAD = 0


class Classifier(nn.Module):
    """Batch x length of words in; batch x classes out, from the mean over the words that are no padding."""

    def __init__(self, words, classes, width, layers, longest):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=PAD)
        self.positions = nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classify = nn.Linear(width, classes)

    def forward(self, sentences):
        is_pad = sentences == PAD
        x = self.words(sentences) + self.positions(torch.arange(sentences.size(1), device=sentences.device))
        x = self.encoder(x, src_key_padding_mask=is_pad).masked_fill(is_pad.unsqueeze(-1), 0.0)
        return self.classify(x.sum(dim=1) / (~is_pad).sum(dim=1, keepdim=True))


def synthetic_batch(batch, longest, words, classes):
    """Most sentences are short, and the class of one is that of its most frequent remainder."""
    lengths = (longest * torch.rand(batch).square()).long().clamp(min=longest // 4)
    sentences = [torch.randint(1, words, (n,)) for n in lengths.tolist()]
    labels = torch.stack([torch.bincount(s % classes, minlength=classes).argmax() for s in sentences])
    return pad_sequence(sentences, True, PAD), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--longest", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(31)
    words, classes = 1000, 6
    model = Classifier(words, classes, width=160, layers=args.layers, longest=args.longest).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)

    for step in range(args.steps):
        batch = synthetic_batch(args.batch, args.longest, words, classes)
        sentences, labels = (t.to(args.device) for t in batch)
        loss = F.cross_entropy(model(sentences), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print_step(step, loss)
        print(f"length {sentences.size(1)}")

    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
