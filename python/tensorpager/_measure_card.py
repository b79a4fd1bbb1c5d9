"""What `tensorpager machine --measure --device cuda` runs: measures the first GPU by torch's own ops and copies, and prints JSON objects, one a
line: `machine`, the text of a machine file, or `failure`.

Times are those of CUDA's events, each the shortest of a few runs.
"""

import json
import re
import sys

_RUNS, _FEWEST_MS = 5, 2.0
_COPIES = (1 << 20, 1 << 24, 1 << 26)  # bytes
_STREAMED = 1 << 26  # numbers of each tensor whose sum is taken, 256 MiB: far more than caches hold
_LARGEST_SIDE = 8192  # of the matrices
_PRECISIONS = ("float32", "bfloat16", "float16", "float64")


def milliseconds(torch, work, repeats=1):
    """Of one call of `work`."""
    work()
    shortest = float("inf")
    for _ in range(_RUNS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            work()
        end.record()
        end.synchronize()
        shortest = min(shortest, begin.elapsed_time(end) / repeats)
    return shortest


def link(torch, name, source_of, target_of):
    """Records of a direction: latency by a transfer of a page, and the rates of larger ones without it."""

    def took(count):
        source, target = source_of(count), target_of(count)
        return milliseconds(torch, lambda: target.copy_(source, non_blocking=True))

    latency = took(4096)
    rates = [count / (took(count) - latency) * 1e3 for count in _COPIES]
    yield f"link {name} from=0 latency_ns={latency * 1e6:.0f} bytes_per_second={rates[0]:.6g}"
    for count, rate in zip(_COPIES[1:], rates[1:]):
        yield f"link {name} from={count} bytes_per_second={rate:.6g}"


def flops_per_second(torch, dtype, launch):
    """Of products of matrices as torch computes them by default, of sides that take a while."""
    side, took = 512, 0.0
    while took < _FEWEST_MS and side < _LARGEST_SIDE:
        side *= 2
        a = torch.ones(side, side, dtype=dtype, device="cuda")
        took = milliseconds(torch, lambda a=a: torch.mm(a, a)) - launch
    return 2 * side**3 / took * 1e3


def measure(torch):
    card = torch.cuda.get_device_properties(0)
    small = torch.ones(1, device="cuda")
    launch = milliseconds(torch, lambda: small.add_(1), repeats=200)
    a = torch.ones(_STREAMED, device="cuda")
    b, c = a.clone(), a.clone()
    streamed = milliseconds(torch, lambda: torch.add(a, b, out=c)) - launch

    def device(count):
        return torch.empty(count, dtype=torch.uint8, device="cuda")

    def pinned(count):
        return torch.empty(count, dtype=torch.uint8, pin_memory=True)

    yield "tensorpager-machine 1"
    yield "name " + re.sub("[^a-z0-9]+", "-", card.name.lower()).strip("-")
    yield f"memory {card.total_memory}"
    rates = (f"{name}={flops_per_second(torch, getattr(torch, name), launch):.6g}" for name in _PRECISIONS)
    yield f"ops bytes_per_second={12 * _STREAMED / streamed * 1e3:.6g} launch_ns={launch * 1e6:.0f} {' '.join(rates)}"
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
