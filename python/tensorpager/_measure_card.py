"""What `tensorpager machine --measure --device cuda` runs: measures the first GPU by torch's own ops and copies, and prints JSON objects, one a
line: `machine`, the text of a machine file, or `failure`.

Times are those of CUDA's events, each the shortest of a few runs.
"""

import json
import re
import sys
import warnings

_RUNS, _FEWEST_MS = 5, 2.0
_COPIES = (1 << 20, 1 << 24, 1 << 26)  # bytes
_STREAMED = 1 << 26  # numbers of each tensor whose sum is taken, 256 MiB: far more than caches hold
_LARGEST_SIDE = 8192  # of the matrices
_MOST_BATCHES = 4096
_PRECISIONS = ("float32", "bfloat16", "float16", "float64")


def milliseconds(torch, work, repeats=1, runs=_RUNS):
    """Of one call of `work`."""
    work()
    shortest = float("inf")
    for _ in range(runs):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            work()
        end.record()
        end.synchronize()
        shortest = min(shortest, begin.elapsed_time(end) / repeats)
    return shortest


def without(took, fixed):
    """What moving or computing took; at least a tenth, as it may take less than the measure's resolution."""
    return max(took - fixed, took / 10)


def link(torch, name, source_of, target_of):
    """Records of a direction: latency by a transfer of a page, and the rates of larger ones without it."""

    def took(count):
        source, target = source_of(count), target_of(count)
        return milliseconds(torch, lambda: target.copy_(source, non_blocking=True))

    latency = took(4096)
    rates = [count / without(took(count), latency) * 1e3 for count in _COPIES]
    yield f"link {name} from=0 latency_ns={latency * 1e6:.0f} bytes_per_second={rates[0]:.6g}"
    for count, rate in zip(_COPIES[1:], rates[1:]):
        yield f"link {name} from={count} bytes_per_second={rate:.6g}"


def flops_per_second(torch, dtype, launch):
    """Of products of matrices, of sides that take a while."""
    side, took = 512, 0.0
    while took < _FEWEST_MS and side < _LARGEST_SIDE:
        side *= 2
        a = torch.ones(side, side, dtype=dtype, device="cuda")
        took = milliseconds(torch, lambda a=a: torch.mm(a, a), runs=1)
    return 2 * side**3 / without(milliseconds(torch, lambda: torch.mm(a, a)), launch) * 1e3


def tf32_flops_per_second(torch, launch):
    """The same of float32 where a program allows TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return flops_per_second(torch, torch.float32, launch)
    finally:
        torch.set_float32_matmul_precision(before)


def convolution(torch, dtype, batch):
    """3 x 3, 256 channels: what is convolved, and the flops of a forward pass."""
    images = torch.ones(batch, 256, 14, 14, dtype=dtype, device="cuda", requires_grad=True)
    filters = torch.ones(256, 256, 3, 3, dtype=dtype, device="cuda", requires_grad=True)
    return torch.nn.functional.conv2d, (images, filters, None, 1, 1), 2 * images.numel() * filters.numel() // 256


def attention(torch, dtype, batch):
    """8 heads of width 128 over 512 words, by one of torch's fused kernels."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(*inputs):
        with (
            warnings.catch_warnings(),
            sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]),
        ):
            warnings.simplefilter("ignore")  # torch says of each kernel that it does not take why
            return torch.nn.functional.scaled_dot_product_attention(*inputs)

    inputs = [torch.ones(batch, 8, 512, 128, dtype=dtype, device="cuda", requires_grad=True) for _ in range(3)]
    return attend, inputs, 4 * inputs[0].numel() * 512


def recurrent(torch, dtype, batch):
    """An LSTM of width 1024; the batch is 64, and as many words as `batch` says."""
    lstm = torch.nn.LSTM(1024, 1024, dtype=dtype, device="cuda")
    words = torch.ones(batch, 64, 1024, dtype=dtype, device="cuda", requires_grad=True)
    return lambda words: lstm(words)[0], (words,), 2 * batch * 64 * 8 * 1024**2


# What is measured of a class of ops, and what its backward pass computes over the forward pass.
_CLASSES = {"convolution": (convolution, 2), "attention": (attention, 2.5), "recurrent": (recurrent, 2)}


def passes_flops_per_second(torch, dtype, launch, make, backward):
    """Of a forward and a backward pass, in batches that take a while; None if torch has no such kernel here."""
    batch, took = 1, 0.0
    while took < _FEWEST_MS and batch < _MOST_BATCHES:
        batch *= 2
        run, inputs, flops = make(torch, dtype, batch)
        wanted = [one for one in inputs if torch.is_tensor(one)]
        try:
            gradient = torch.ones_like(run(*inputs))
        except RuntimeError:
            return None

        def both(run=run, inputs=inputs, wanted=wanted, gradient=gradient):
            return torch.autograd.grad(run(*inputs), wanted, gradient)

        took = milliseconds(torch, both, runs=1)
    return (1 + backward) * flops / without(milliseconds(torch, both), 2 * launch) * 1e3


def rates_of_classes(torch, launch, capability):
    """Records of what classes of ops reach, if it is not what products do."""
    for name, (make, backward) in _CLASSES.items():
        if name == "recurrent" and capability < (7, 5):
            continue  # torch's cuDNN has none there, and a layer is many products
        found = {
            precision: passes_flops_per_second(torch, getattr(torch, precision), launch, make, backward)
            for precision in _PRECISIONS
            if precision != "float64"
        }
        rates = [f"{precision}={rate:.6g}" for precision, rate in found.items() if rate]
        if rates:
            yield f"rates {name} {' '.join(rates)}"


def measure(torch):
    card = torch.cuda.get_device_properties(0)
    small = torch.ones(1, device="cuda")
    launch = milliseconds(torch, lambda: small.add_(1), repeats=200)
    a = torch.ones(_STREAMED, device="cuda")
    b, c = a.clone(), a.clone()
    streamed = without(milliseconds(torch, lambda: torch.add(a, b, out=c)), launch)

    def device(count):
        return torch.empty(count, dtype=torch.uint8, device="cuda")

    def pinned(count):
        return torch.empty(count, dtype=torch.uint8, pin_memory=True)

    yield "tensorpager-machine 1"
    yield "name " + re.sub("[^a-z0-9]+", "-", card.name.lower()).strip("-")
    yield f"memory {card.total_memory}"
    rates = (f"{name}={flops_per_second(torch, getattr(torch, name), launch):.6g}" for name in _PRECISIONS)
    tf32 = f"tf32={tf32_flops_per_second(torch, launch):.6g}"
    yield f"ops bytes_per_second={12 * _STREAMED / streamed * 1e3:.6g} launch_ns={launch * 1e6:.0f} {' '.join([*rates, tf32])}"
    yield from rates_of_classes(torch, launch, (card.major, card.minor))
    yield f"card compute={card.major}.{card.minor} multiprocessors={card.multi_processor_count} memory={card.total_memory}"
    yield from link(torch, "out", device, pinned)
    yield from link(torch, "in", pinned, device)
    yield "end"


def main():
    try:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU")
        print(json.dumps({"machine": "".join(f"{line}\n" for line in measure(torch))}))
    except Exception as error:
        print(json.dumps({"failure": f"{type(error).__name__}: {error}"}))


if __name__ == "__main__":
    # This folder is where Python looks first for a script's imports, and it is no place for those.
    sys.path.pop(0)
    main()
