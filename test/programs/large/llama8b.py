"""Llama 3 of 8 billion parameters in bfloat16: a training loop written by hand, or transformers' Trainer."""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


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


def make_model(args):
    config = LlamaConfig(
        vocab_size=args.vocabulary,
        hidden_size=args.width,
        intermediate_size=7 * args.width // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        num_key_value_heads=max(1, args.heads // 4),
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(args.device):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    if args.checkpointing:
        model.gradient_checkpointing_enable()
    return model.train()


def loss_of(model, tokens, chunks):
    """Of the next tokens; with chunks, logits are made for a part of each sequence at a time, as torchtune does it."""
    if chunks == 1:
        return model(input_ids=tokens, labels=tokens, use_cache=False).loss
    hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state[:, :-1]
    parts = zip(hidden.chunk(chunks, dim=1), tokens[:, 1:].chunk(chunks, dim=1))
    sums = [F.cross_entropy(model.lm_head(h).float().flatten(0, 1), t.flatten(), reduction="sum") for h, t in parts]
    return torch.stack(sums).sum() / tokens[:, 1:].numel()


def step_in_backward(model):
    """Each parameter is updated as soon as it has its gradient, which is freed then: torch's tutorial on it."""
    optimizers = {p: torch.optim.AdamW([p], lr=1e-4, betas=(0.9, 0.95), foreach=False) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)


def train_by_hand(model, text, args):
    if args.in_backward:
        step_in_backward(model)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95))
    for step in range(args.steps):
        tokens = torch.stack([text[step * args.batch + i]["input_ids"] for i in range(args.batch)]).to(args.device)
        loss = loss_of(model, tokens, args.chunks)
        loss.backward()
        if args.in_backward:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            continue
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f} norm {norm.item():.4f}", flush=True)


def train_by_trainer(model, text, args):
    arguments = TrainingArguments(
        max_steps=args.steps,
        per_device_train_batch_size=args.batch,
        gradient_checkpointing=args.checkpointing,
        bf16=True,
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
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--chunks", type=int, default=1, help="of each sequence, for the loss")
    parser.add_argument("--in-backward", action="store_true", help="the optimizer's step within the backward pass")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--trainer", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(2)
    model = make_model(args)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.2f} billion parameters", flush=True)
    text = Text(args.steps * args.batch, args.length, args.vocabulary)
    (train_by_trainer if args.trainer else train_by_hand)(model, text, args)


if __name__ == "__main__":
    main()
