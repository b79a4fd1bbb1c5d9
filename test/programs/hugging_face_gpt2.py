"""GPT-2 of transformers with gradient checkpointing in reentrant mode, trained by hand, then evaluated and sampled from in two ways."""

import argparse

import torch
from _digest import print_digest, print_step
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup


def synthetic_text(tokens, length):
    """A walk whose next token depends on the last two."""
    text = torch.randint(tokens, (length,))
    for i in range(2, length, 3):
        text[i] = (text[i - 1] * 7 + text[i - 2]) % tokens
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=20_000, help="of text")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(31)
    tokens = 600
    config = GPT2Config(
        vocab_size=tokens,
        n_positions=2 * args.length,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config).to(args.device)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, args.steps)
    text = synthetic_text(tokens, args.tokens)

    model.train()
    for step in range(args.steps):
        begins = torch.randint(len(text) - args.length, (args.batch,))
        batch = torch.stack([text[begin : begin + args.length] for begin in begins]).to(args.device)
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print_step(step, loss)

    model.eval()
    with torch.no_grad():
        print("evaluation", model(input_ids=batch, labels=batch).loss.item().hex())
    mask = torch.ones(2, 8, dtype=torch.long, device=args.device)
    prompt = {"input_ids": batch[:2, :8], "attention_mask": mask, "pad_token_id": 0}
    print("greedy", model.generate(**prompt, max_new_tokens=5, do_sample=False).tolist())
    print("sampled", model.generate(**prompt, max_new_tokens=5, do_sample=True, top_k=50, top_p=0.9).tolist())
    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
