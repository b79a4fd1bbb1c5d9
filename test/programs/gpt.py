"""Character GPT: causal attention with one projection, tied embedding and output weights, AdamW, then a sampled continuation."""

import argparse

import torch
import torch.nn.functional as F
from _digest import print_digest, print_step
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CausalSelfAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, letters, context, width, heads, layers):
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(letters, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        self.apply(self.initialise)
        self.head.weight = self.tokens.weight

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets=None):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        if targets is None:
            return self.head(self.norm(x[:, -1]))
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, tokens, count):
        for _ in range(count):
            probabilities = F.softmax(self(tokens[:, -self.context :]), dim=-1)
            tokens = torch.cat([tokens, torch.multinomial(probabilities, 1)], dim=1)
        return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    torch.manual_seed(8)
    text = torch.tensor(list(__doc__.encode() * 40))
    model = GPT(letters=256, context=args.context, width=128, heads=4, layers=args.layers).to(args.device)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))

    for step in range(args.steps):
        begins = torch.randint(len(text) - args.context - 1, (args.batch,))
        inputs = torch.stack([text[b : b + args.context] for b in begins]).to(args.device)
        targets = torch.stack([text[b + 1 : b + 1 + args.context] for b in begins]).to(args.device)
        loss = model(inputs, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print_step(step, loss)

    prompt = text[None, :16].to(args.device)
    print("sample", bytes(model.generate(prompt, 12)[0].tolist()).hex())
    print_digest(model, optimizer)


if __name__ == "__main__":
    main()
