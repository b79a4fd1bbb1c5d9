"""What it costs a thread that computes when another thread of the process changes page tables, as the stable binding does for each
block that moves: the other processors drop what they know of the address space, and read the page tables anew.

.venv/bin/python bench/page_tables.py [--rounds 20] [--json out/page_tables.json]

A second thread takes write access of 256 KiB away and gives it back, a few thousand times a second, against the same calls that change
nothing.
"""

import argparse
import ctypes
import json
import mmap
import statistics
import threading
import time
from pathlib import Path

import pairs
import torch
import workloads

SIZE = 256 << 10  # more pages than a kernel drops one by one
PAUSE = 100e-6  # seconds
STEPS = 5
CASES = {"GPT-2, tiny": workloads.gpt2, "ResNet-18": workloads.resnet18}


class Changer:
    """Calls mprotect until it is stopped, and counts the changes."""

    def __init__(self):
        self.pages = mmap.mmap(-1, SIZE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        self.changes = 0
        self.first = mmap.PROT_READ | mmap.PROT_WRITE  # of the two protections that it sets in turn
        self.is_stopped = False
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        filling = b"x" * SIZE
        while not self.is_stopped:
            self.pages[:] = filling  # only what is mapped must be dropped
            for protection in (self.first, mmap.PROT_READ | mmap.PROT_WRITE):
                self.mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(SIZE), protection)
            self.changes += self.first == mmap.PROT_READ
            time.sleep(PAUSE)

    def stop(self):
        self.is_stopped = True
        self.thread.join()


def measure(build, changer: Changer, rounds: int) -> dict:
    step = build()
    counted = []

    def several():
        before = changer.changes
        for _ in range(STEPS):
            step()
        counted.append(changer.changes - before)

    def set_first(protection):
        changer.first = protection

    seconds = pairs.interleave(
        {"still": several, "changing": several},
        rounds,
        {
            "still": lambda: set_first(mmap.PROT_READ | mmap.PROT_WRITE),
            "changing": lambda: set_first(mmap.PROT_READ),
        },
    )
    changes = statistics.median(count for count in counted if count > 0)
    return {
        "milliseconds": statistics.median(seconds["still"]) / STEPS * 1e3,
        "ratio": pairs.ratio(seconds, "changing", "still"),
        "changes": changes / STEPS,
        "microseconds_per_change": pairs.difference(seconds, "changing", "still") / changes * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    changer = Changer()
    print(
        "measured: CPU time of a step of plain torch while another thread changes page tables, over that while it does not"
    )
    print(f"{'work':<20}{'ms a step':>10}{'ratio':>8}{'changes a step':>16}{'us a change':>13}")
    rows = {}
    for name, build in CASES.items():
        row = rows[name] = measure(build, changer, arguments.rounds)
        print(
            f"{name:<20}{row['milliseconds']:>10.1f}{row['ratio']:>8.3f}{row['changes']:>16.0f}"
            f"{row['microseconds_per_change']:>13.1f}",
            flush=True,
        )
    changer.stop()
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
