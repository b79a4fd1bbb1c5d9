"""Runs a training script that sets no seed, and saves checkpoints with `model` in them, under one; prints a digest of each model it saves.

Usage: seeded.py SCRIPT [ARGUMENT...]
"""

import runpy
import sys
from pathlib import Path

import torch
from emulation_models import digest


def print_model(checkpoint, path, save=torch.save, **options):
    save(checkpoint, path, **options)
    print(f"{Path(path).name}: {digest(*checkpoint['model'].values())}", flush=True)


if __name__ == "__main__":
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    torch.manual_seed(0)
    torch.save = print_model
    runpy.run_path(sys.argv[0], run_name="__main__")
