"""Tensors that are more than one storage, or hide what they hold: sparse, nested, quantized, packed, copy-on-write, complex.

Sizes are such that indices, lengths and packed weights are large enough to be paged out: C++ code reads some of them outside any op.
"""

import warnings

import bits
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

pytestmark = pytest.mark.forked(seconds=300)

SIDE = 128  # of a float matrix of 64 KiB
LONG = 2100  # steps of a sequence: their batch sizes are 17 KiB of int64


def sparse_coo(evict):
    dense = torch.randn(SIDE, SIDE).relu()
    evict()
    sparse = dense.to_sparse().requires_grad_()
    evict()
    total = torch.sparse.mm(sparse, torch.randn(SIDE, SIDE)) + torch.sparse.sum(sparse)
    evict()
    total.square().sum().backward()
    evict()
    twice = torch.sparse_coo_tensor(sparse.grad._indices().repeat(1, 2), sparse.grad._values().repeat(2), dense.shape)
    evict()
    merged = twice.coalesce()
    evict()
    return total, merged, merged.to_dense(), merged.T.coalesce(), (merged * 2).coalesce(), merged.clone()


def sparse_csr(evict):
    dense = torch.randn(SIDE, SIDE).relu()
    sparse = dense.to_sparse_csr()
    evict()
    product = sparse @ torch.randn(SIDE, SIDE)
    evict()
    return product, sparse, sparse.to_dense(), sparse.to_sparse_coo(), (sparse * 3), sparse.transpose(0, 1).to_dense()


def sparse_gradients(evict):
    embedding = nn.EmbeddingBag(2000, 32, sparse=True, mode="sum")
    plain = nn.Embedding(2000, 32, sparse=True)
    optimizers = [torch.optim.SparseAdam(embedding.parameters()), torch.optim.SGD(plain.parameters(), lr=0.1)]
    for _ in range(3):
        words = torch.randint(2000, (600, 8))
        evict()
        loss = (embedding(words) - plain(words).mean(1)).square().sum()
        evict()
        loss.backward()
        for optimizer in optimizers:
            evict()
            optimizer.step()
            optimizer.zero_grad()
    return embedding, plain, optimizers


def nested(evict):
    lengths = torch.randint(1, 6, (1100,)).tolist()  # their sizes are 17 KiB of int64
    nest = torch.nested.nested_tensor([torch.randn(n, 16) for n in lengths], requires_grad=True)
    evict()
    weight = torch.randn(96, 16, requires_grad=True)
    result = F.linear(nest, weight)
    evict()
    padded = result.relu().to_padded_tensor(0.0)
    evict()
    padded.square().sum().backward()
    evict()
    return padded, nest.grad, weight.grad, nest.detach().clone()


def jagged(evict):
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), torch.randint(1, 4, (3000,)).cumsum(0)])  # 24 KiB
    values = torch.randn(int(offsets[-1]), 16, requires_grad=True)
    evict()
    nest = torch.nested.nested_tensor_from_jagged(values, offsets)
    evict()
    result = (nest * 2).sin() + nest
    evict()
    result.values().square().sum().backward()
    evict()
    return result.values(), values.grad, nest.offsets()


def packed_lstm(evict, kind=nn.LSTM):
    network = kind(8, 8, batch_first=True)
    batch = torch.randn(2, LONG, 8, requires_grad=True)
    evict()
    packed = pack_padded_sequence(batch, [LONG, 900], batch_first=True)
    assert packed.batch_sizes.nbytes > 16 << 10
    evict()
    result, state = network(packed)
    evict()
    padded, lengths = pad_packed_sequence(result, batch_first=True)
    evict()
    padded.square().mean().backward()
    evict()
    return padded, lengths, state, batch.grad, network, [parameter.grad for parameter in network.parameters()]


def packed_gru(evict):
    return packed_lstm(evict, nn.GRU)


def quantized_linear(evict):
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    evict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated by torch, and still used
        quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    evict()
    first = quantized(torch.randn(64, 256))
    evict()
    second = quantized(torch.randn(300, 256))
    evict()
    return first, second, quantized[0].weight(), quantized[2].bias()


def quantized_tensors(evict):
    values = torch.randn(SIDE, SIDE)
    evict()
    each = torch.quantize_per_tensor(values, 0.05, 3, torch.qint8)
    rows = torch.quantize_per_channel(values, torch.rand(SIDE) + 0.1, torch.zeros(SIDE), 0, torch.qint8)
    evict()
    return each, each.dequantize(), rows.int_repr(), rows.dequantize(), each.clone(), each[3:90].contiguous()


def copy_on_write(evict):
    original = torch.randn(SIDE, SIDE)
    lazy = [torch._lazy_clone(original) for _ in range(4)]
    evict()
    lazy[0].add_(1)
    evict()
    original.mul_(2)
    evict()
    del lazy[1]
    lazy[1].copy_(lazy[0])
    evict()
    lazy[2][3:5] = 7
    shared = torch._lazy_clone(lazy[2])
    evict()
    lazy[2] = None
    evict()
    return original, lazy[:2], shared, torch._C._is_cow_tensor(shared)


def complex_numbers(evict):
    values = torch.randn(SIDE, SIDE, dtype=torch.complex64, requires_grad=True)
    evict()
    spectrum = torch.fft.fft2(values.conj()) * values.H
    evict()
    waves = torch.stft(
        torch.view_as_real(values).flatten().detach(), 256, window=torch.hann_window(256), return_complex=True
    )
    evict()
    spectrum.abs().sum().backward()
    evict()
    again = torch.istft(waves, 256, window=torch.hann_window(256))
    return spectrum, waves, values.grad, again, torch.fft.irfft2(torch.fft.rfft2(values.real)), values.imag.neg()


def masks_and_orders(evict):
    values = torch.randn(60_000)
    evict()
    mask = (values > 0.5) & ~values.isnan()
    evict()
    chosen = values[mask]
    values[mask] = -1
    values.masked_fill_(values < -2, 9)
    evict()
    unique = torch.unique((values * 10).long(), return_inverse=True, return_counts=True)
    evict()
    ordered = values.sort(stable=True)
    evict()
    scattered = torch.zeros(1000).index_add_(0, torch.arange(60_000) % 1000, values)
    evict()
    return chosen, values, unique, list(ordered), list(values.topk(9000)), scattered, mask.nonzero(), values.histc(50)


def other_types(evict):
    values = torch.randn(60_000)
    results = []
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.float8_e4m3fn,
    ):
        evict()
        converted = (values.abs() * 9).to(dtype)
        evict()
        results += [converted.view(torch.uint8), converted.to(torch.float32) + 1]
    return results


PIECES = [
    sparse_coo,
    sparse_csr,
    sparse_gradients,
    pytest.param(nested, marks=pytest.mark.stable("torch reads the sizes of more than 1024 parts outside ops")),
    jagged,
    pytest.param(packed_lstm, marks=pytest.mark.slow),
    pytest.param(packed_gru, marks=pytest.mark.slow),
    quantized_linear,
    quantized_tensors,
    copy_on_write,
    complex_numbers,
    masks_and_orders,
    other_types,
]

READING_SIZES = [nested, packed_lstm, packed_gru]  # C++ code around the ops reads how long each part is


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.__name__)
def test_has_the_same_bits_under_pressure(spill, piece):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(beta|prototype) st")  # nested and sparse CSR tensors
        bits.check(piece, spill, outside_ops=piece in READING_SIZES)
