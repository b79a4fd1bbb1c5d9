"""Word language model: stacked nn.LSTM, truncated backpropagation through time, gradient clipping, perplexity on held-out text."""

import argparse
import math

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.drop = nn.Dropout(0.2)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.2)
        self.decoder = nn.Linear(width, words)

    def forward(self, tokens, state):
        out, state = self.lstm(self.drop(self.embedding(tokens)), state)
        return self.decoder(self.drop(out)), state

    def initial_state(self, batch):
        shape = (self.lstm.num_layers, batch, self.lstm.hidden_size)
        device = self.decoder.weight.device
        return torch.zeros(shape, device=device), torch.zeros(shape, device=device)


def synthetic_text(length, words):
    """A Markov chain: each word is followed by one of four others."""
    successors = torch.randint(words, (words, 4)).tolist()
    choices = torch.randint(4, (length,)).tolist()
    text, word = [], 0
    for choice in choices:
        word = successors[word][choice]
        text.append(word)
    return torch.tensor(text)


def columns(text, batch):
    """[time, batch]: each column is one continuous piece of the text."""
    length = len(text) // batch
    return text[: length * batch].view(batch, length).t().contiguous()


@torch.no_grad()
def perplexity(model, data, span):
    model.eval()
    state, total, count = model.initial_state(data.size(1)), 0.0, 0
    for begin in range(0, data.size(0) - 1, span):
        inputs = data[begin : begin + span][: data.size(0) - 1 - begin]
        targets = data[begin + 1 : begin + 1 + len(inputs)]
        logits, state = model(inputs, state)
        total += F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").item()
        count += targets.numel()
    model.train()
    return math.exp(total / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--span", type=int, default=32)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(3)
    words, width = 400, 192
    train = columns(synthetic_text(args.batch * (args.steps * args.span + 1), words), args.batch).to(args.device)
    held_out = columns(synthetic_text(8 * (2 * args.span + 1), words), 8).to(args.device)
    model = LanguageModel(words, width, args.layers).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    state = model.initial_state(args.batch)
    for step in range(args.steps):
        begin = step * args.span
        inputs, targets = train[begin : begin + args.span], train[begin + 1 : begin + 1 + args.span]
        state = tuple(s.detach() for s in state)
        logits, state = model(inputs, state)
        loss = F.cross_entropy(logits.view(-1, words), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print_step(step, loss)

    print(f"perplexity {perplexity(model, held_out, args.span).hex()}")
    print_digest(model, optimizer, state)


if __name__ == "__main__":
    main()
