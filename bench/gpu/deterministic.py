"""Runs a program of the tests with torch told to be deterministic, so that its bits can be compared on a card.

deterministic.py PROGRAM [ARGUMENT]...
"""

import runpy
import sys
from pathlib import Path

import torch


def main():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    # Its backward pass adds in any order unless all algorithms must be deterministic, and some programs have none.
    torch.backends.cuda.enable_cudnn_sdp(False)
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
