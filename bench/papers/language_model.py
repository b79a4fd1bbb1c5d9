"""A word language model of LSTM cells unrolled over 35 words, as TensorFlow's tutorial on Penn Treebank, which the papers train: its large configuration.

language_model.py --layers 4 --batch 32
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, LENGTH = 10000, 1500, 35


class LanguageModel(nn.Module):
    def __init__(self, layers: int):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.drop = nn.Dropout(0.65)
        self.cells = nn.ModuleList(nn.LSTMCell(WIDTH, WIDTH) for _ in range(layers))
        self.output = nn.Linear(WIDTH, WORDS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        states, outputs = [None] * len(self.cells), []
        for word in self.drop(self.embedding(text)).unbind(dim=1):
            for i, cell in enumerate(self.cells):
                states[i] = cell(word, states[i])
                word = self.drop(states[i][0])
            outputs.append(word)
        return self.output(torch.stack(outputs, dim=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    model = LanguageModel(options.layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    text = torch.randint(WORDS, (options.batch, LENGTH + 1), device="cuda")
    for _ in range(options.steps):
        optimizer.zero_grad()
        logits = model(text[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()


if __name__ == "__main__":
    main()
