"""A program that has trained a model and has more paged out, and how it ended."""

import json
import os

SETUP = """\
import atexit, os, sys, threading, time
import torch
from training import evict, make_model, train
model = make_model()
train(model)
evict()
tensors = [torch.full((100, 256), float(value)) for value in range(20)]
print("ready", flush=True)
"""


class Ending:
    def __init__(self, ended, folder, spill):
        self.returncode, self.stdout = ended.returncode, ended.stdout.removeprefix("ready\n")
        lines = ended.stderr.splitlines()
        ours = [line for line in lines if line.startswith("tensorpager: need ")]
        self.summary = bool(ours)
        self.stderr = [line for line in lines if line not in ours and not line.startswith("tensorpager: plan ")]
        assert len(ours) <= 1
        path = folder / "stats.json"
        self.stats = json.loads(path.read_text()) if path.exists() else None
        assert os.listdir(spill) == []


def run_to_its_end(server, folder, spill, text, act=None):
    """`act` is called with the program once it is as far as SETUP says."""
    stats = str(folder / "stats.json")
    program = server.start(
        folder, SETUP + text, TENSORPAGER_BUDGET="1MiB", TENSORPAGER_SPILL=spill, TENSORPAGER_STATS=stats
    )
    if act:
        program.wait_for("ready")
        act(program)
    return Ending(program.wait(), folder, spill)
