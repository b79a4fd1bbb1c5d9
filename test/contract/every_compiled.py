"""Programs that go through torch.compile, trained for a few steps; prints losses exactly.

python every_compiled.py CASE...
"""

import hashlib
import sys
import tempfile

import torch
import torch._inductor
from torch import nn
from torch.nn import functional as F

WIDTH, BATCH, STEPS = 192, 256, 3
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Residual(nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))

    def forward(self, x):
        for linear in self.linears:
            x = x + F.gelu(linear(x))
        return x


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        widths = (3, 24, 24, 48, 48)
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
                for a, b in zip(widths, widths[1:])
            )
        )

    def forward(self, x):
        return F.adaptive_avg_pool2d(self.blocks(x), 4).flatten(1)


class Attention(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.mixers = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.feeds = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.heads = heads

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x):
        for n in range(2):
            rows, length, _ = x.shape
            q, k, v = self.mixers[n](self.norms[2 * n](x)).view(rows, length, 3, self.heads, -1).unbind(2)
            mixed = self.attend(*(part.transpose(1, 2) for part in (q, k, v)))
            x = x + mixed.transpose(1, 2).reshape(rows, length, WIDTH)
            x = x + F.gelu(self.feeds[n](self.norms[2 * n + 1](x)))
        return x


def train(model, batches, options=None):
    compiled = torch.compile(model, **(options or {}))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for batch in batches:
        loss = compiled(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


def rows(*sizes):
    return [torch.randn(size, WIDTH) for size in sizes]


@case
def mlp():
    return train(Residual(), rows(*[BATCH] * STEPS))


@case
def conv_net():
    return train(ConvNet(), [torch.randn(16, 3, 32, 32) for _ in range(STEPS)])


@case
def attention():
    return train(Attention(), [torch.randn(4, 96, WIDTH) for _ in range(STEPS)])


@case
def marked_dynamic():
    batches = rows(200, 256, 231)
    for batch in batches:
        torch._dynamo.mark_dynamic(batch, 0)
    return train(Residual(), batches)


@case
def varying_batch():
    return train(Residual(), rows(256, 200, 231, 256))


@case
def max_autotune():
    return train(Residual(), rows(*[BATCH] * STEPS), {"mode": "max-autotune-no-cudagraphs"})


@case
def cpp_wrapper():
    return train(Residual(), rows(*[BATCH] * STEPS), {"options": {"cpp_wrapper": True}})


@case
def aot_eager():
    return train(Residual(), rows(*[BATCH] * STEPS), {"backend": "aot_eager"})


@case
def flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    def score(score, batch, head, row, column):
        return score - (row - column).abs() / 64

    attend = torch.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=score))
    with torch.no_grad():  # torch has no backward of it on the CPU
        for _ in range(STEPS):
            yield attend(*(torch.randn(2, 4, 256, 64) for _ in range(3))).square().mean()


@case
def compiled_optimizer_step():
    model = Residual()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = torch.compile(optimizer.step)
    for batch in rows(*[BATCH] * STEPS):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        step()
        yield loss


@case
def compiled_autograd():
    torch._dynamo.config.compiled_autograd = True
    try:
        yield from train(Residual(2), rows(*[BATCH] * STEPS))
    finally:
        torch._dynamo.config.compiled_autograd = False


@case
def bfloat16_autocast():
    model = torch.compile(Residual())
    with torch.autocast("cpu", torch.bfloat16):
        for batch in rows(*[BATCH] * STEPS):
            loss = model(batch).float().square().mean()
            loss.backward()
            yield loss


@case
def compiled_ahead_of_time():
    model = Residual(3).eval()
    batch = torch.randn(BATCH, WIDTH)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = f"{folder}/model.pt2"
        torch._inductor.aoti_compile_and_package(torch.export.export(model, (batch,)), package_path=path)
        loaded = torch._inductor.aoti_load_package(path)
        for batch in rows(*[BATCH] * STEPS):
            yield loaded(batch).square().mean()


@case
def too_large():
    """Arguments that need more than the budget of the test; the program catches the error and trains on."""
    grow = torch.compile(lambda a, b: (a * 2 + b).cos())
    large = torch.ones(2 << 20), torch.ones(2 << 20)
    try:
        yield grow(*large).sum()
    except torch.OutOfMemoryError as error:
        print("refused:", error)
    del large
    yield from train(Residual(), rows(*[BATCH] * STEPS))


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        torch._dynamo.reset()
        torch.manual_seed(0)
        held = [torch.randn(WIDTH, WIDTH) for _ in range(60)]  # what else a program has in memory
        losses = [loss.item().hex() for loss in CASES[name]()]
        sha = hashlib.sha256()
        for tensor in held:
            sha.update(tensor.numpy())
        print(name, *losses, sha.hexdigest()[:8], flush=True)
    counters = torch._dynamo.utils.counters
    hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
    print("graphs found in the cache:", hits, file=sys.stderr)


if __name__ == "__main__":
    main()
