"""transformers' Trainer with its defaults: fused AdamW, checkpoints on the way, and a second Trainer that resumes from one of them."""

import argparse
import hashlib
import tempfile
from pathlib import Path

import torch
from _digest import print_digest
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments


class Sentences(Dataset):
    """The label says whether the first half holds more even tokens than the second."""

    def __init__(self, count, length, tokens):
        self._tokens = torch.randint(1, tokens, (count, length))
        even = (self._tokens % 2 == 0).float()
        self._labels = (even[:, : length // 2].sum(1) > even[:, length // 2 :].sum(1)).long()

    def __len__(self):
        return len(self._labels)

    def __getitem__(self, index):
        return {"input_ids": self._tokens[index], "labels": self._labels[index]}


def make_model(tokens, args):
    config = BertConfig(
        vocab_size=tokens,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=4,
        intermediate_size=3 * args.width,
        max_position_embeddings=args.length,
    )
    return BertForSequenceClassification(config)


def train(data, held_out, tokens, args, arguments, **resume):
    trainer = Trainer(make_model(tokens, args), arguments, train_dataset=data, eval_dataset=held_out)
    trainer.remove_callback(PrinterCallback)  # it prints wall times
    trainer.train(**resume)
    for entry in trainer.state.log_history:
        print(", ".join(f"{name} {entry[name].hex()}" for name in ("loss", "grad_norm", "eval_loss") if name in entry))
    return trainer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(33)
    tokens = 800
    data, held_out = Sentences(400, args.length, tokens), Sentences(32, args.length, tokens)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=args.steps,
            per_device_train_batch_size=args.batch,
            save_steps=args.steps // 2,
            eval_strategy="steps",
            eval_steps=args.steps // 2,
            logging_steps=1,
            use_cpu=args.device == "cpu",
            report_to=[],
            disable_tqdm=True,
        )
        first = train(data, held_out, tokens, args, arguments)
        print("optimizer", arguments.optim)
        for path in sorted(Path(folder).glob("checkpoint-*/*.safetensors")):
            print(path.relative_to(folder), hashlib.sha256(path.read_bytes()).hexdigest())

        middle = f"{folder}/checkpoint-{args.steps // 2}"
        again = train(data, held_out, tokens, args, arguments, resume_from_checkpoint=middle)
        print_digest(first.model, again.model, first.optimizer.state_dict(), again.optimizer.state_dict())


if __name__ == "__main__":
    main()
