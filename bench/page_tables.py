"""What it costs a thread that computes when another thread of the process copies bytes, as blocks that move are copied, and when it changes
page tables, as the stable binding does for each block that moves: the other processors drop what they know of the address space, and read
the page tables anew.

.venv/bin/python bench/page_tables.py [--rounds 20] [--json out/page_tables.json]

A second thread copies 256 KiB a few thousand times a second, against one that does nothing; and it takes write access of them away and gives
it back after each copy, against the same calls that change nothing.
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


class Disturber:
    """A thread that does what `does` says, until it is stopped, and counts how often."""

    def __init__(self):
        self.pages = mmap.mmap(-1, SIZE)
        self.address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(self.pages)))
        self.library = ctypes.CDLL(None, use_errno=True)  # its calls let other threads of Python run
        self.does = "nothing"
        self.times = 0
        self.is_stopped = False
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        filling, size = ctypes.create_string_buffer(SIZE), ctypes.c_size_t(SIZE)
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        while not self.is_stopped:
            does = self.does
            if does != "nothing":
                self.library.memcpy(self.address, filling, size)  # only what is mapped must be dropped
                for protection in (mmap.PROT_READ if does == "changing" else writable, writable):
                    self.library.mprotect(self.address, size, protection)
                self.times += 1
            time.sleep(PAUSE)

    def stop(self):
        self.is_stopped = True
        self.thread.join()


def measure(build, disturber: Disturber, rounds: int) -> dict:
    step = build()
    times = {"nothing": [], "copying": [], "changing": []}

    def several():
        before = disturber.times
        for _ in range(STEPS):
            step()
        times[disturber.does].append(disturber.times - before)

    def begin(does):
        disturber.does = does

    seconds = pairs.interleave(dict.fromkeys(times, several), rounds, {does: lambda d=does: begin(d) for does in times})
    copied = statistics.median(times["copying"])
    changes = statistics.median(times["changing"])
    mib = copied * SIZE / (1 << 20)
    return {
        "milliseconds": statistics.median(seconds["nothing"]) / STEPS * 1e3,
        "copying_ratio": pairs.ratio(seconds, "copying", "nothing"),
        "copied_mib": mib / STEPS,
        "microseconds_per_mib": pairs.difference(seconds, "copying", "nothing") / mib * 1e6,
        "changing_ratio": pairs.ratio(seconds, "changing", "copying"),
        "changes": changes / STEPS,
        "microseconds_per_change": pairs.difference(seconds, "changing", "copying") / changes * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disturber = Disturber()
    print(
        "measured: CPU time of a step of plain torch while another thread copies, over that while it does nothing;\n"
        "and while it copies and changes page tables, over that while it only copies"
    )
    print(
        f"{'work':<14}{'ms a step':>10}{'copying':>9}{'MiB a step':>12}{'us a MiB':>10}"
        f"{'changing':>10}{'changes a step':>16}{'us a change':>13}"
    )
    rows = {}
    for name, build in CASES.items():
        row = rows[name] = measure(build, disturber, arguments.rounds)
        print(
            f"{name:<14}{row['milliseconds']:>10.1f}{row['copying_ratio']:>9.3f}{row['copied_mib']:>12.1f}"
            f"{row['microseconds_per_mib']:>10.1f}{row['changing_ratio']:>10.3f}{row['changes']:>16.0f}"
            f"{row['microseconds_per_change']:>13.1f}",
            flush=True,
        )
    disturber.stop()
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
