"""Word language model: two layers of nn.LSTM with dropout over packed sentences of different lengths; SGD, gradient clipping."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence


class LanguageModel(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.drop = nn.Dropout(0.5)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.5, batch_first=True)
        self.decoder = nn.Linear(width, words)

    def forward(self, sentences):
        """Packed words in; a row of logits for each of them out, in the order of the packing."""
        inputs = PackedSequence(self.drop(self.embedding(sentences.data)), *sentences[1:])
        out, _ = self.lstm(inputs)
        return self.decoder(self.drop(out.data))


def draw_lengths(batch, longest):
    """At least half of the longest, which one sentence has. They stay on the host."""
    lengths = torch.randint(longest // 2, longest + 1, (batch,))
    lengths[0] = longest
    return lengths


def synthetic_batch(lengths, words, device):
    """Packed sentences, in which each word is to be followed by the next."""
    text = torch.randint(words, (len(lengths), int(lengths.max()) + 1)).to(device)
    inputs, targets = (pack_padded_sequence(part, lengths, True, False) for part in (text[:, :-1], text[:, 1:]))
    return inputs, targets.data


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--longest", type=int, default=35)
    parser.add_argument("--width", type=int, default=1500)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--words", type=int, default=10000)
    parser.add_argument("--vary", action="store_true", help="other lengths each step")
    args = parser.parse_args()

    torch.manual_seed(3)
    model = LanguageModel(args.words, args.width, args.layers).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)

    lengths = draw_lengths(args.batch, args.longest)
    for step in range(args.steps):
        if args.vary:
            lengths = draw_lengths(args.batch, args.longest)
        inputs, targets = synthetic_batch(lengths, args.words, args.device)
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
