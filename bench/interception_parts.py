"""What each part of interception costs: the same step with the key alone, then with boxing, visiting, pins, and with our allocator, in turn.

cmake --build --preset dev --target bench_modules && .venv/bin/python bench/interception_parts.py [--rounds 30]
"""

import argparse
import pathlib
import statistics
import sys

import pairs
import torch
import workloads

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "build/dev/bench"))
import interception_parts as parts  # noqa: E402  (needs torch's libraries loaded)

LEVELS = ["none", "key", "boxing", "visit", "pins", "fallthrough", "unboxed", "watched", "captured"]
CALLS = 1000
CASES = {
    "add_ 64 KiB": (lambda: workloads.in_place("add_", calls=CALLS), CALLS),
    "sub_ 64 KiB": (lambda: workloads.in_place("sub_", calls=CALLS), CALLS),
    "empty 64 KiB": (lambda: workloads.allocations(calls=CALLS), CALLS),
    "LSTM cell loop": (workloads.lstm_cell, 0),
    "GPT-2, tiny": (workloads.gpt2, 0),
}


def switch(level: str, ours: bool):
    def prepare():
        parts.set_allocator(ours)
        parts.set_level(level)

    return prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(
        f"measured: CPU time of one thread against plain torch, medians of {rounds} interleaved rounds (ns a call, or ratio)"
    )
    print(f"{'':<18}{'allocator':>10}" + "".join(f"{level:>12}" for level in LEVELS[1:]))
    for name, (build, calls) in CASES.items():
        variants, prepare = {}, {}
        for variant, level, ours in [("plain", "none", False)] + [(level, level, True) for level in LEVELS]:
            prepare[variant] = switch(level, ours)
            prepare[variant]()
            variants[variant] = build()
        seconds = pairs.interleave(variants, rounds, prepare)
        prepare["plain"]()
        row = []
        for level in LEVELS:
            if calls:
                row.append(f"{pairs.difference(seconds, level, 'plain') / calls * 1e9:>+.0f} ns")
            else:
                row.append(f"{pairs.ratio(seconds, level, 'plain'):.3f}")
        plain = statistics.median(seconds["plain"])
        print(f"{name:<18}{row[0]:>10}" + "".join(f"{cell:>12}" for cell in row[1:]) + f"   plain {plain * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
