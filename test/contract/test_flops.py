"""The arithmetic that traces give ops, against numbers worked out by hand: 2 flops for each product that is added up."""

import re
from collections import defaultdict

import pytest

# What is measured comes between the two passes of a training step.
PROGRAM = """
import torch
import torch.nn.functional as F
from torch import nn

aten = torch.ops.aten
kernels = torch.library.Library("aten", "IMPL")

def call_on_the_host(op, *arguments):
    \"\"\"An op of CUDA's: the host gets a kernel for it that computes nothing.\"\"\"
    schema = op._schema
    if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CPU"):
        made = {{"Tensor": lambda: torch.zeros(1), "int": lambda: 0, "SymInt": lambda: 0, "List[Tensor]": lambda: []}}
        results = tuple(made[str(part.type)]() for part in schema.returns)
        result = results if len(results) > 1 else results[0]
        kernels.impl(op.name(), lambda *given, **named: result, "CPU")
    with torch.no_grad():
        op(*arguments)

def step():
{body}

weight = nn.Parameter(torch.zeros(100, 100))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(4):
    kept = weight * 2  # lives throughout, so that all is one window
    step()
    kept.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    del kept
"""


@pytest.fixture
def flops(server, tmp_path):
    """Runs the body once a window; returns the flops of each op's calls in order, by its name without aten::."""

    def run(body):
        text = PROGRAM.format(body="".join(f"    {line}\n" for line in body.strip().splitlines()))
        trace = tmp_path / "step.trace"
        ended = server.start(tmp_path, text, TENSORPAGER_BUDGET="unlimited", TENSORPAGER_TRACE=str(trace)).wait()
        assert ended.returncode == 0, ended.stderr
        found = defaultdict(list)
        for name, line in re.findall(r"^op aten::(\w+)(.*)$", trace.read_text(), re.MULTILINE):
            match = re.search(r" flops=(\d+)", line)
            found[name].append(int(match[1]) if match else 0)
        return found

    return run


def test_products(flops):
    found = flops("""
a, b, c = torch.randn(6, 40, 130), torch.randn(6, 130, 150), torch.randn(6, 40, 150)
torch.bmm(a, b), torch.baddbmm(c, a, b), c.baddbmm_(a, b), torch.addbmm(c[0], a, b)
torch.mm(a[0], b[0]), torch.addmm(c[0], a[0], b[0]), c[0].addmm_(a[0], b[0])
torch.mv(a[0], b[0, :, 0]), torch.addmv(c[0, :, 0], a[0], b[0, :, 0]), torch.dot(c.flatten(), c.flatten())
""")
    one = 2 * 40 * 130 * 150
    assert [found[name] for name in ("bmm", "baddbmm", "baddbmm_", "addbmm")] == [[6 * one]] * 4
    assert [found[name] for name in ("mm", "addmm", "addmm_")] == [[one]] * 3
    assert [found[name] for name in ("mv", "addmv")] == [[2 * 40 * 130]] * 2
    assert found["dot"] == [2 * 6 * 40 * 150]


def test_products_of_low_precision_and_of_groups(flops):
    found = flops("""
a, b = torch.randn(192, 128).to(torch.float8_e4m3fn), torch.randn(64, 128).to(torch.float8_e4m3fn).t()
call_on_the_host(aten._scaled_mm.default, a, b, torch.ones(1), torch.ones(1))
a, groups, ends = torch.randn(96, 128), torch.randn(4, 128, 64), torch.tensor([24, 48, 72, 96], dtype=torch.int32)
call_on_the_host(aten._grouped_mm.default, a, groups, ends)
call_on_the_host(aten._grouped_mm.default, groups.transpose(1, 2), torch.randn(128, 96), ends)
F.linear(torch.randn(3, 32, 128), torch.randn(64, 128))
""")
    assert found["_scaled_mm"] == [2 * 192 * 128 * 64]
    # Every row meets one matrix; or every column does.
    assert found["_grouped_mm"] == [2 * 96 * 128 * 64, 2 * 64 * 128 * 96]
    assert found["mm"] == [2 * 3 * 32 * 128 * 64]  # what a linear layer is made of


def test_convolutions(flops):
    found = flops("""
x = torch.randn(4, 16, 24, 24, requires_grad=True)
def train(layer): layer(x).sum().backward()
train(nn.Conv2d(16, 32, 3, padding=1))
train(nn.Conv2d(16, 32, 3, padding=1, groups=4))
train(nn.Conv2d(16, 32, 3, stride=2, dilation=2))
train(nn.ConvTranspose2d(16, 32, 2, stride=2))
F.conv2d(x.detach(), torch.randn(32, 16, 3, 3, requires_grad=True), padding=1).sum().backward()
""")
    whole = 2 * 4 * 24 * 24 * 32 * 16 * 9
    strided = 2 * 4 * 10 * 10 * 32 * 16 * 9  # (24 - 5) / 2 + 1 places a side
    transposed = 2 * 4 * 24 * 24 * 16 * 32 * 4
    forward = [whole, whole // 4, strided, transposed, whole]
    assert found["convolution"] == forward
    assert found["convolution_backward"] == [2 * n for n in forward[:4]] + [whole]  # the last input wants no gradient


def test_convolutions_of_cudnn(flops):
    found = flops("""
x, weight = torch.randn(4, 16, 24, 24), torch.randn(32, 4, 3, 3)
call_on_the_host(aten.cudnn_convolution.default, x, weight, [1, 1], [2, 2], [1, 1], 4, False, False, False)
call_on_the_host(aten.cudnn_convolution_relu.default, x, weight, None, [2, 2], [1, 1], [1, 1], 4)
call_on_the_host(aten._conv_depthwise2d.default, x, torch.randn(16, 1, 3, 3), [3, 3], None, [1, 1], [1, 1], [1, 1])
call_on_the_host(aten.cudnn_convolution_transpose.default, x, torch.randn(16, 8, 2, 2), [0, 0], [0, 0], [2, 2], [1, 1], 1, False, False, False)
""")
    assert found["cudnn_convolution"] == found["cudnn_convolution_relu"] == [2 * 4 * 12 * 12 * 32 * 4 * 9]
    assert found["_conv_depthwise2d"] == [2 * 4 * 24 * 24 * 16 * 9]
    assert found["cudnn_convolution_transpose"] == [2 * 4 * 24 * 24 * 16 * 8 * 4]


def test_attention(flops):
    found = flops("""
def draw(heads, length): return torch.randn(2, heads, length, 32, requires_grad=True)
F.scaled_dot_product_attention(draw(4, 64), draw(4, 96), draw(4, 96)).sum().backward()
F.scaled_dot_product_attention(draw(4, 64), draw(4, 64), draw(4, 64), is_causal=True).sum().backward()
""")
    whole, half = 2 * 2 * 4 * 64 * 96 * 32, 2 * 2 * 4 * (64 * 65 // 2) * 32
    assert found["_scaled_dot_product_flash_attention_for_cpu"] == [2 * whole, 2 * half]
    assert found["_scaled_dot_product_flash_attention_for_cpu_backward"] == [5 * whole, 5 * half]


FORWARD = {
    "flash": "q, k, v, 0.0, {causal}",
    "efficient": "q, k, v, None, True, 0.0, {causal}",
    "cudnn": "q, k, v, None, True, 0.0, {causal}",
    "fused": "q, k, v, None, 0.0, {causal}",
}
BACKWARD = {
    "flash": "q, q, k, v, q, q, one, one, 64, 64, 0.0, {causal}, one, one",
    "efficient": "q, q, k, v, one, q, q, one, one, 0.0, [True] * 4, {causal}",
    "cudnn": "q, q, k, v, q, q, one, one, one, one, one, 64, 64, 0.0, {causal}",
    "fused": "q, q, k, v, one, [True] * 4, q, q, one, one, 64, 64, 0.0, {causal}, one, one",
}


@pytest.mark.parametrize("kernel", FORWARD)
def test_attention_of_cuda(flops, kernel):
    """Keys and values have half of the queries' heads, and values are wider than keys."""
    name = f"_scaled_dot_product_{kernel}_attention" + ("_overrideable" if kernel == "fused" else "")
    lines = ["q, k, v = torch.randn(2, 4, 64, 32), torch.randn(2, 2, 64, 32), torch.randn(2, 2, 64, 48)"]
    lines += ["one = torch.zeros(1)"]
    for causal in (False, True):
        lines.append(f"call_on_the_host(aten.{name}.default, {FORWARD[kernel].format(causal=causal)})")
        lines.append(f"call_on_the_host(aten.{name}_backward.default, {BACKWARD[kernel].format(causal=causal)})")
    found = flops("\n".join(lines))
    pairs = [2 * 4 * 64 * 64, 2 * 4 * 64 * 65 // 2]
    assert found[name] == [2 * n * (32 + 48) for n in pairs]
    assert found[f"{name}_backward"] == [2 * n * (3 * 32 + 2 * 48) for n in pairs]


def test_encoder_in_evaluation(flops):
    found = flops("""
layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
with torch.no_grad(): layer(torch.randn(4, 32, 64))
""")
    weights = 64 * 192 + 64 * 64 + 2 * 64 * 128
    assert found["_transformer_encoder_layer_fwd"] == [2 * 4 * 32 * weights + 4 * 4 * 32 * 32 * 64]


def test_recurrent_layers_of_the_host(flops):
    found = flops("""
layer = nn.LSTM(64, 96, num_layers=2, bidirectional=True)
layer(torch.randn(20, 8, 64, requires_grad=True))[0].sum().backward()
""")
    first, second = 2 * 160 * 4 * 96 * (64 + 96), 2 * 160 * 4 * 96 * (2 * 96 + 96)
    assert found["mkldnn_rnn_layer"] == [first, first, second, second]
    assert found["mkldnn_rnn_layer_backward"] == [2 * second, 2 * second, 2 * first, 2 * first]


def test_recurrent_layers_of_cudnn(flops):
    """Padded and packed: 20 x 8 rows, and 100 in 20 steps. The backward pass once without gradients of weights."""
    found = flops("""
weights = [torch.randn(4 * 96, 64), torch.randn(4 * 96, 96), torch.randn(4 * 96), torch.randn(4 * 96)]
state, options = torch.zeros(1, 8, 96), [2, 96, 0, 1, False, 0.0, True, False]
padded, packed = torch.randn(20, 8, 64), torch.randn(100, 64)
for x, sizes in ((padded, []), (packed, [5] * 20)):
    call_on_the_host(aten._cudnn_rnn.default, x, weights, 4, None, state, state, *options, sizes, None)
for mask in ([True] * 4, [True, True, True, False]):
    y = torch.randn(20, 8, 96)
    call_on_the_host(aten._cudnn_rnn_backward.default, padded, weights, 4, y, state, state, y, y, None, None, *options, [], None, y, mask)
""")
    row = 2 * 4 * 96 * (64 + 96)
    assert found["_cudnn_rnn"] == [160 * row, 100 * row]
    assert found["_cudnn_rnn_backward"] == [2 * 160 * row, 160 * row]
