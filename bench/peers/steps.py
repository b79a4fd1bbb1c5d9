"""A training program for comparisons: runs one of the benchmarks' large workloads, and writes what each step took as soon as it ends. It knows nothing of who limits
its memory.

python bench/peers/steps.py "U-Net" --steps 12 -o seconds.txt
"""

import argparse
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from workloads import LARGE_CASES  # noqa: E402  (of the folder above)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=LARGE_CASES)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    step = LARGE_CASES[options.case]()
    with open(options.output, "w") as output:
        for _ in range(options.steps):
            start = time.perf_counter()
            step()
            print(time.perf_counter() - start, file=output, flush=True)


if __name__ == "__main__":
    main()
