"""Small models of the usual kinds, trained the usual ways on any device."""

import hashlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

CLASSES, WORDS, LENGTH = 10, 200, 16


def digest(*tensors):
    sha = hashlib.sha1()
    for tensor in tensors:
        plain = tensor.detach().cpu().flatten().clone(memory_format=torch.contiguous_format)
        sha.update(plain.view(torch.uint8).numpy())
    return sha.hexdigest()[:12]


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + x, inplace=True)


def convolutional(width=16):
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        Residual(width),
        Residual(width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, CLASSES),
    )


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        heads = [
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, 2)
        ]
        y = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + F.dropout(self.out(y), self.dropout)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), self.dropout)


class Gpt(nn.Module):
    def __init__(self, width=64, layers=2, dropout=0.0, checkpointed=False):
        super().__init__()
        self.checkpointed = checkpointed
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, 4, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class Translator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words, self.attend, self.head = (
            nn.Embedding(WORDS, width),
            nn.Linear(width, width),
            nn.Linear(2 * width, WORDS),
        )
        self.reads, self.writes = nn.LSTM(width, width, 2, batch_first=True), nn.LSTM(width, width, batch_first=True)

    def forward(self, words):
        memory, (hidden, cell) = self.reads(self.words(words))
        y, _ = self.writes(self.words(words.roll(1, 1)), (hidden[-1:], cell[-1:]))
        weights = torch.bmm(self.attend(y), memory.transpose(1, 2)).softmax(-1)
        return self.head(torch.cat([y, torch.bmm(weights, memory)], -1)).flatten(0, 1)


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9, foreach=False),
    "sgd_foreach": lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9, foreach=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 1e-3, foreach=False),
    "adamw_foreach": lambda parameters: torch.optim.AdamW(parameters, 1e-3, foreach=True),
    "adamw_fused": lambda parameters: torch.optim.AdamW(parameters, 1e-3, fused=True),
}


def train(model, device, optimizer="adamw", autocast=False, steps=3):
    """A digest of the losses and of all that the model is afterwards."""
    generator = torch.Generator().manual_seed(1)
    if isinstance(model, nn.Sequential):
        inputs = torch.randn(8, 3, 32, 32, generator=generator)
        labels = torch.randint(0, CLASSES, (8,), generator=generator)
    else:
        inputs = torch.randint(0, WORDS, (4, LENGTH), generator=generator)
        labels = inputs.roll(-1, 1).flatten()
    model.to(device)
    stepper, losses = OPTIMIZERS[optimizer](model.parameters()), []
    for _ in range(steps):
        x, y = inputs.to(device), labels.to(device)
        stepper.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            output = model(x)
        loss = F.cross_entropy(output.float(), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        stepper.step()
        losses.append(loss)
    return digest(*losses, *model.state_dict().values())
