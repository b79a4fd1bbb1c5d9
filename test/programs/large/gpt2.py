"""GPT-2 of transformers, from small to XL: a training loop written by hand, or transformers' Trainer."""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

SIZES = {  # width, layers, heads
    "tiny": (64, 2, 2),
    "small": (768, 12, 12),
    "medium": (1024, 24, 16),
    "large": (1280, 36, 20),
    "xl": (1600, 48, 25),
}


class Text(Dataset):
    """Random tokens, the same at each index in every run."""

    def __init__(self, count, length, vocabulary):
        self.count, self.length, self.vocabulary = count, length, vocabulary

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(self.vocabulary, (self.length,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


def train_by_hand(model, text, args):
    device = torch.device(args.device)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(args.steps):
        tokens = torch.stack([text[step * args.batch + i]["input_ids"] for i in range(args.batch)]).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=args.autocast):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} norm {norm.item():.4f}", flush=True)


def train_by_trainer(model, text, args):
    arguments = TrainingArguments(
        max_steps=args.steps,
        per_device_train_batch_size=args.batch,
        gradient_checkpointing=args.checkpointing,
        bf16=args.autocast,
        use_cpu=args.device == "cpu",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    Trainer(model, arguments, train_dataset=text).train()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--autocast", action="store_true", help="in bfloat16")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--trainer", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(1)
    width, layers, heads = SIZES[args.size]
    last = args.vocabulary - 1
    config = GPT2Config(
        vocab_size=args.vocabulary,
        n_positions=args.length,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        bos_token_id=last,
        eos_token_id=last,
    )
    model = GPT2LMHeadModel(config)
    model.train()
    if args.checkpointing:
        model.gradient_checkpointing_enable()
    text = Text(args.steps * args.batch, args.length, args.vocabulary)
    (train_by_trainer if args.trainer else train_by_hand)(model, text, args)


if __name__ == "__main__":
    main()
