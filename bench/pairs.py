"""Times variants of the same work side by side: in each round every variant runs once, in turn, so that a drift of the machine falls on all. Reported are
medians of the rounds, and of the ratios within a round."""

import statistics
import time
from collections.abc import Callable


def interleave(variants: dict[str, Callable[[], None]], rounds: int, prepare: dict[str, Callable[[], None]]) -> dict:
    """Seconds of CPU time of this thread for each variant and round; `prepare[name]` runs before a variant, outside the clock."""
    seconds = {name: [] for name in variants}
    for name, run in variants.items():  # once to warm caches and allocators
        prepare[name]()
        run()
        run()
    names = list(variants)
    for index in range(rounds):
        for name in names if index % 2 == 0 else reversed(names):
            prepare[name]()
            variants[name]()  # the first call after a switch pays for cold caches
            start = time.thread_time()
            variants[name]()
            seconds[name].append(time.thread_time() - start)
    return seconds


def ratio(seconds: dict, name: str, base: str) -> float:
    return statistics.median(a / b for a, b in zip(seconds[name], seconds[base]))


def difference(seconds: dict, name: str, base: str) -> float:
    return statistics.median(a - b for a, b in zip(seconds[name], seconds[base]))
