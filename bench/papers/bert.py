"""transformers' BERT, base, trained on masked words and next sentences as its paper trains it, on a card; AdamW.

bert.py --batch 32
"""

import argparse

import torch
from transformers import BertConfig, BertForPreTraining


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    config = BertConfig()
    model = BertForPreTraining(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = torch.randint(config.vocab_size, (options.batch, options.length), device="cuda")
    is_next = torch.randint(2, (options.batch,), device="cuda")
    for _ in range(options.steps):
        optimizer.zero_grad()
        model(input_ids=words, labels=words, next_sentence_label=is_next).loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
