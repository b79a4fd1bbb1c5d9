"""Training steps to time: each builder returns a function that runs one step. Small on purpose, so that the cost of a call shows."""

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def in_place(op: str, elements: int = 16384, calls: int = 1000):
    """`calls` calls of one in-place op on two tensors of 64 KiB: nothing is allocated, so a call is a frame and its kernel."""
    a, b = torch.zeros(elements), torch.zeros(elements)
    call = getattr(a, op)

    def step():
        for _ in range(calls):
            call(b)

    return step


def in_place_in_training(op: str, elements: int = 16384, calls: int = 1000):
    """The same calls between the forward and the backward pass of a step, which makes a window of them."""
    a, b = torch.zeros(elements), torch.zeros(elements)
    weight = torch.zeros(elements, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    call = getattr(a, op)

    def step():
        optimizer.zero_grad()
        y = weight * b
        for _ in range(calls):
            call(b)
        y.sum().backward()
        optimizer.step()

    return step


def allocations(elements: int = 16384, calls: int = 1000):
    """`calls` pairs of an allocation and a free of 64 KiB."""

    def step():
        for _ in range(calls):
            torch.empty(elements)

    return step


def lstm_cell(steps: int = 40):
    torch.manual_seed(0)
    cell = nn.LSTMCell(64, 64)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.01)
    inputs = torch.randn(steps, 1, 64)

    def step():
        h = c = torch.zeros(1, 64)
        for x in inputs:
            h, c = cell(x, (h, c))
        optimizer.zero_grad()
        h.sum().backward()
        optimizer.step()

    return step


class Recomputed(nn.Module):
    """Keeps its input only, and is computed again for the backward pass."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def gpt2(
    layers: int = 4, width: int = 128, length: int = 64, batch: int = 4, words: int = 1000, recompute: bool = False
):
    torch.manual_seed(0)
    wrap = Recomputed if recompute else nn.Sequential
    embed, position = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
    blocks = nn.Sequential(*[wrap(Block(width, 4)) for _ in range(layers)], nn.LayerNorm(width))
    optimizer = torch.optim.AdamW([*embed.parameters(), position, *blocks.parameters()], lr=1e-3)
    tokens = torch.randint(0, words, (batch, length + 1))

    def step():
        logits = blocks(embed(tokens[:, :-1]) + position) @ embed.weight.t()
        loss = F.cross_entropy(logits.reshape(-1, words), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet18(batch: int = 4, size: int = 112, recompute: bool = False):
    torch.manual_seed(0)
    wrap = Recomputed if recompute else nn.Sequential
    widths = [64, 64, 128, 256, 512]
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for i in range(1, 5):
        first, second = Residual(widths[i - 1], widths[i], 1 if i == 1 else 2), Residual(widths[i], widths[i], 1)
        layers += [wrap(first), wrap(second)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def seq2seq(length: int = 40, batch: int = 32, width: int = 128, words: int = 500):
    """Additive attention: each decoder step makes a sum of length x batch x width and its tanh."""
    torch.manual_seed(0)
    embed, encoder, cell = nn.Embedding(words, width), nn.GRU(width, width), nn.GRUCell(2 * width, width)
    query, score, output = nn.Linear(width, width), nn.Linear(width, 1), nn.Linear(width, words)
    model = nn.ModuleList([embed, encoder, cell, query, score, output])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    source, target = torch.randint(0, words, (length, batch)), torch.randint(0, words, (length, batch))

    def step():
        keys, state = encoder(embed(source))
        state, logits = state[0], []
        for word in target:
            weights = F.softmax(score(torch.tanh(keys + query(state))), dim=0)
            context = (weights * keys).sum(dim=0)
            state = cell(torch.cat([embed(word), context], dim=1), state)
            logits.append(output(state))
        optimizer.zero_grad()
        F.cross_entropy(torch.stack(logits).reshape(-1, words), target.reshape(-1)).backward()
        optimizer.step()

    return step


class UNet(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(self.stage(i, o) for i, o in zip([1, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(self.stage(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 4, 1)

    @staticmethod
    def stage(inputs: int, outputs: int) -> nn.Sequential:
        layers = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x):
        skips = []
        for level, stage in enumerate(self.down):
            x = stage(x if level == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def unet(batch: int = 4, size: int = 128):
    torch.manual_seed(0)
    model = UNet(16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(batch, 1, size, size), torch.randint(0, 4, (batch, size, size))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


# What is trained for a while, each of some hundred MiB.
CASES = {
    "ResNet-18": partial(resnet18, batch=16),
    "GPT-2 like": partial(gpt2, layers=8, width=256, length=128, batch=8, words=2000),
    "Seq2Seq": seq2seq,
    "U-Net": unet,
}
# The same, of more bytes than the libraries of a process take.
LARGE_CASES = {
    "ResNet-18": partial(resnet18, batch=96),
    "GPT-2 like": partial(gpt2, layers=8, width=256, length=128, batch=48, words=2000),
    "Seq2Seq": partial(seq2seq, batch=768),
    "U-Net": partial(unet, batch=48),
}
