"""Sequence tagger over sentences of different lengths: packed sequences through a bidirectional nn.LSTM, RMSprop."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

PAD = 0


class Tagger(nn.Module):
    def __init__(self, words, tags, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=PAD)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.classify = nn.Linear(2 * width, tags)

    def forward(self, sentences, lengths):
        packed = pack_padded_sequence(self.embedding(sentences), lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.classify(out)


def synthetic_batch(batch, longest, words, tags):
    """The tag of a word depends on the word and on its left neighbour."""
    lengths = torch.randint(longest // 2, longest + 1, (batch,))
    sentences = [torch.randint(1, words, (n,)) for n in lengths.tolist()]
    labels = [(s + s.roll(1)) % tags for s in sentences]
    return pad_sequence(sentences, True, PAD), pad_sequence(labels, True, -100), lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--longest", type=int, default=40)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(4)
    words, tags = 1000, 12
    model = Tagger(words, tags, args.width).to(args.device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, centered=True)

    for step in range(args.steps):
        sentences, labels, lengths = synthetic_batch(args.batch, args.longest, words, tags)
        sentences, labels = sentences.to(args.device), labels.to(args.device)
        logits = model(sentences, lengths)
        loss = F.cross_entropy(logits.reshape(-1, tags), labels.reshape(-1), ignore_index=-100)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        correct = (logits.argmax(dim=-1) == labels)[labels != -100]
        print_step(step, loss)
        print(f"correct {int(correct.sum())} of {correct.numel()}")

    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
