"""Programs of the fused attention that only CUDA has: against the formula, differentiated by autograd."""

import torch
import torch.nn.functional as F
from cuda_only_checks import close, program, same_on_cuda, to_cuda


def queries(*sizes, dtype=torch.float32, seed=0):
    """Leaves laid out as attention layers make them: [batch, heads, tokens, size] over [batch, tokens, heads, size]."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(b, t, h, d, generator=generator).to(dtype).transpose(1, 2).detach().requires_grad_()
        for b, h, t, d in sizes
    ]


def backend(name):
    return torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, name))


def attention(kind, **options):
    """Through `kind` on cuda, by the formula on the CPU, so that the two have no code in common."""

    def run(q, k, v, mask=None):
        with backend(kind if q.is_cuda else "MATH"):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)

    return run


@program
def efficient_attention():
    results = []
    square = queries((2, 3, 9, 8), (2, 3, 9, 8), (2, 3, 9, 8))
    oblong = queries((2, 3, 9, 8), (2, 3, 13, 8), (2, 3, 13, 16))
    mask = torch.randn(2, 3, 9, 13, generator=torch.Generator().manual_seed(3)).requires_grad_()
    results += same_on_cuda(attention("EFFICIENT_ATTENTION"), square)
    results += same_on_cuda(attention("EFFICIENT_ATTENTION", is_causal=True), oblong)  # from the upper left corner
    results += same_on_cuda(attention("EFFICIENT_ATTENTION", scale=0.3), [*oblong, mask])
    results += same_on_cuda(attention("EFFICIENT_ATTENTION"), [*oblong, mask.detach()])
    return results


@program
def efficient_attention_has_the_layout_of_cuda():
    q, k, v = (to_cuda(i) for i in queries((2, 3, 9, 8), (2, 3, 13, 8), (2, 3, 13, 16)))
    forward = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True)
    assert forward[0].shape == (2, 3, 9, 16) and forward[0].transpose(1, 2).is_contiguous()
    assert forward[1].shape == (2, 3, 32) and forward[1].dtype == torch.float32
    without = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, False)
    assert without[1].shape == (2, 3, 0)
    dropped = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.5)
    assert dropped[2].device.type == "cpu" and forward[2].device.type == "cuda"
    return [forward[0]]


@program
def flash_attention():
    results = []
    inputs = queries((2, 4, 9, 8), (2, 4, 9, 8), (2, 4, 9, 8), dtype=torch.bfloat16)
    grouped = queries((2, 4, 9, 8), (2, 2, 9, 8), (2, 2, 9, 8), dtype=torch.bfloat16)
    for options in ({}, {"is_causal": True}):
        results += same_on_cuda(attention("FLASH_ATTENTION", **options), inputs, tolerance=4e-2)
        results += same_on_cuda(attention("FLASH_ATTENTION", enable_gqa=True, **options), grouped, tolerance=4e-2)
    q, k, v = (to_cuda(i) for i in inputs)
    forward = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)
    assert forward[0].stride() == q.stride() and forward[1].shape == (2, 4, 9)
    assert forward[6].shape == (2,) and forward[6].is_cuda
    return results


@program
def cudnn_attention():
    inputs = [to_cuda(i) for i in queries((2, 4, 9, 8), (2, 4, 13, 8), (2, 4, 13, 16), dtype=torch.float16)]
    forward = torch.ops.aten._scaled_dot_product_cudnn_attention(*inputs, None, True)
    assert forward[0].shape == (2, 4, 9, 16) and forward[0].transpose(1, 2).is_contiguous()
    assert forward[1].shape == (2, 4, 9, 1)
    cpu = [i.detach().cpu().float().requires_grad_() for i in inputs]
    with backend("MATH"):
        expected = F.scaled_dot_product_attention(*cpu)
    close(forward[0], expected, 4e-3)
    expected.sum().backward()
    forward[0].sum().backward()
    for found, wanted in zip(inputs, cpu, strict=True):
        close(found.grad, wanted.grad, 4e-3)
    return [forward[0]] + [i.grad for i in inputs]


def dropped_attention(kind, dtype):
    """With values of one, an output is the share of weight that was kept, scaled up: 1 on average.

    An output is linear in the values. So if the loss is half the sum of the squared outputs and the backward pass has the
    forward pass's mask, then the values' gradient times the values sums to twice the loss.
    """
    torch.manual_seed(5)
    q, k = (to_cuda(i) for i in queries((4, 4, 32, 8), (4, 4, 32, 8), dtype=dtype))
    v = torch.ones(4, 4, 32, 8, device="cuda", dtype=dtype, requires_grad=True)
    with backend(kind):
        output = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert 0.9 < output.float().mean().item() < 1.1 and output.float().std().item() > 0.05
    loss = output.float().square().sum() / 2
    loss.backward()
    close((v.grad.float() * v.float()).sum(), output.float().square().sum().cpu(), 2e-2)
    assert q.grad.float().norm().item() > 0
    return [output, q.grad, k.grad, v.grad]


@program
def efficient_attention_with_dropout():
    return dropped_attention("EFFICIENT_ATTENTION", torch.float32)


@program
def flash_attention_with_dropout():
    return dropped_attention("FLASH_ATTENTION", torch.bfloat16)


@program
def packed_attention():
    """Two sequences one behind another equal two batches; causal from the lower right, as flash's is."""
    lengths, key_lengths = [3, 5], [4, 9]
    starts = torch.tensor([0, 3, 8], dtype=torch.int32).cuda()
    key_starts = torch.tensor([0, 4, 13], dtype=torch.int32).cuda()
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(n, 2, 8, generator=generator).requires_grad_() for n in (8, 13, 13))
    rows = []
    for part_q, part_k, part_v in zip(q.split(lengths), k.split(key_lengths), v.split(key_lengths), strict=True):
        count, keys = part_q.size(0), part_k.size(0)
        visible = torch.ones(count, keys, dtype=torch.bool).tril(keys - count)
        dense = [t.transpose(0, 1).unsqueeze(0) for t in (part_q, part_k, part_v)]
        with backend("MATH"):
            rows.append(F.scaled_dot_product_attention(*dense, attn_mask=visible).squeeze(0).transpose(0, 1))
    expected = torch.cat(rows)
    expected.square().sum().backward()
    results = []
    for run in ("flash", "efficient"):
        on_cuda = [to_cuda(t) for t in (q, k, v)]
        if run == "flash":
            output = torch.ops.aten._flash_attention_forward(*on_cuda, starts, key_starts, 5, 9, 0.0, True, False)
            assert output[1].shape == (2, 8)
            output = output[0]
        else:
            output, lse, *_ = torch.ops.aten._efficient_attention_forward(
                *(t.unsqueeze(0) for t in on_cuda), None, starts, key_starts, 5, 9, 0.0, 2, True
            )
            assert lse.shape == (2, 2, 32)
            output = output.squeeze(0)
        close(output, expected)
        output.square().sum().backward()
        for found, wanted in zip(on_cuda, (q, k, v), strict=True):
            close(found.grad, wanted.grad)
        results += [output] + [t.grad for t in on_cuda]
    return results
