"""Llama of transformers: grouped queries, rotary positions, gradient checkpointing in its default mode, bfloat16 autocast, accumulation."""

import argparse

import torch
from _digest import print_digest, print_step
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(32)
    tokens = 500
    config = LlamaConfig(
        vocab_size=tokens,
        hidden_size=args.width,
        intermediate_size=2 * args.width + 128,
        num_hidden_layers=args.layers,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=2 * args.length,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).to(args.device)
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    rules = torch.randint(tokens, (tokens,))  # which token follows which, mostly

    model.train()
    for step in range(args.steps):
        total = 0.0
        for _ in range(2):
            batch = torch.randint(tokens, (args.batch, args.length))
            batch[:, 1::2] = rules[batch[:, ::2]]
            batch = batch.to(args.device)
            with torch.autocast(torch.device(args.device).type, torch.bfloat16):
                loss = model(input_ids=batch, labels=batch, use_cache=False).loss / 2
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print_step(step, total)

    model.eval()
    mask = torch.ones(2, 6, dtype=torch.long, device=args.device)
    prompt = {"input_ids": batch[:2, :6], "attention_mask": mask, "pad_token_id": 0}
    print("beams", model.generate(**prompt, max_new_tokens=5, num_beams=3, do_sample=False).tolist())
    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
