"""Translation with additive attention (Bahdanau et al.): a bidirectional GRU reads, and a cell with attention writes; Adam, teacher forcing."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.gru = nn.GRU(width, width // 2, bidirectional=True, batch_first=True)

    def forward(self, source):
        memory, last = self.gru(self.embedding(source))
        return memory, torch.tanh(torch.cat([last[0], last[1]], dim=1))


class Decoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)
        self.cell = nn.GRUCell(2 * width, width)
        self.mix = nn.Linear(2 * width, width)
        self.output = nn.Linear(width, words)

    def forward(self, memory, state, target):
        keys, outputs = self.key(memory), []
        for word in self.embedding(target).unbind(dim=1):
            energy = torch.tanh(self.query(state).unsqueeze(1) + keys)
            weights = F.softmax(self.score(energy).squeeze(-1), dim=-1)
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            state = self.cell(torch.cat([word, context], dim=1), state)
            outputs.append(torch.tanh(self.mix(torch.cat([state, context], dim=1))))
        return self.output(torch.stack(outputs, dim=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--length", type=int, default=50)
    parser.add_argument("--width", type=int, default=1000)
    parser.add_argument("--words", type=int, default=30000)
    args = parser.parse_args()

    torch.manual_seed(6)
    encoder = Encoder(args.words, args.width).to(args.device)
    decoder = Decoder(args.words, args.width).to(args.device)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)

    for step in range(args.steps):
        source = torch.randint(1, args.words, (args.batch, args.length)).to(args.device)
        target = source.flip(1)
        shifted = F.pad(target, (1, 0))[:, :-1]  # what the decoder has seen before each word
        logits = decoder(*encoder(source), shifted)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
