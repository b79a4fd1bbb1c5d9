"""Sequence to sequence with additive attention: a GRU encoder and a decoder that learns to reverse its input; Adagrad."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn

START = 0


class Encoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.gru = nn.GRU(width, width, bidirectional=True, batch_first=True)
        self.bridge = nn.Linear(2 * width, width)

    def forward(self, source):
        memory, last = self.gru(self.embedding(source))
        return self.bridge(memory), torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1)))


class AdditiveAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, state, memory, keys):
        energy = torch.tanh(self.query(state).unsqueeze(1) + keys)
        weights = F.softmax(self.score(energy).squeeze(-1), dim=-1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)


class Decoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.attention = AdditiveAttention(width)
        self.cell = nn.GRUCell(2 * width, width)
        self.output = nn.Linear(2 * width, words)

    def forward(self, memory, state, target, teacher):
        keys = self.attention.key(memory)
        token = torch.full((memory.size(0),), START, device=memory.device)
        logits = []
        for position in range(target.size(1)):
            context = self.attention(state, memory, keys)
            state = self.cell(torch.cat([self.embedding(token), context], dim=1), state)
            logits.append(self.output(torch.cat([state, context], dim=1)))
            token = target[:, position] if teacher[position] else logits[-1].argmax(dim=1)
        return torch.stack(logits, dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(6)
    words = 200
    encoder, decoder = Encoder(words, args.width).to(args.device), Decoder(words, args.width).to(args.device)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adagrad(parameters, lr=0.02)

    for step in range(args.steps):
        source = torch.randint(1, words, (args.batch, args.length)).to(args.device)
        target = source.flip(1)
        teacher = (torch.rand(args.length) < 0.7).tolist()
        logits = decoder(*encoder(source), target, teacher)
        loss = F.nll_loss(F.log_softmax(logits, dim=-1).transpose(1, 2), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(parameters, 1.0)
        optimizer.step()
        print_step(step, loss)

    print_digest(encoder, decoder, optimizer)


if __name__ == "__main__":
    main()
