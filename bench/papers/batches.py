"""The largest batches of the papers' nets in the papers' memory, by `tensorpager fit`: a table.

The overhead of a trace at the batch that the paper reached, and the largest batches at given overheads.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from planned import COMMAND, HERE, Program, large, plan_with, trace_of, vision
from table import or_none, percent

OLDEST = "7.5"  # compute capability that torch's cuDNN has recurrent nets for


class Row(NamedTuple):
    name: str
    program: Program
    machine: str
    paper: str
    reached: int | None  # the paper's largest batch
    has_cudnn_rnn: bool = False
    budget: str = "12GiB"
    full: bool = False  # takes minutes


def meng(before: int, reached: int) -> tuple[str, int]:
    return f"Meng 2017, Tesla M40: {before} -> {reached}", reached


def language_model(layers: int, *paper) -> Row:
    program = Program(HERE / "language_model.py", f"--layers {layers}")
    return Row(f"LSTM, {layers} layers" if layers > 1 else "LSTM, 1 layer", program, "m40-12g", *paper)


def seq2seq(length: int, *paper) -> Row:
    program = large("seq2seq", f"--length {length} --width 1024 --words 8000")
    return Row(f"Seq2Seq, T = {length}", program, "m40-12g", *paper, has_cudnn_rnn=True)


ROWS = [
    Row("resnet50", vision("resnet50"), "m40-12g", *meng(144, 664)),
    Row("inception_v3", vision("inception_v3"), "m40-12g", *meng(208, 548)),
    Row("vgg16", vision("vgg16"), "titanx-12g", "vDNN 2016, Titan X: 256 at 18 % loss", 256),
    Row("DCGAN, 128 pixels", large("dcgan", "--size 128 --width 64"), "m40-12g", *meng(24, 48)),
    Row("DCGAN, 1024 pixels", large("dcgan", "--size 1024 --width 32"), "m40-12g", *meng(24, 48)),
    language_model(1, *meng(1800, 3000)),
    language_model(4, *meng(750, 1500)),
    language_model(8, *meng(350, 900)),
    language_model(16, *meng(75, 280)),
    seq2seq(50, *meng(350, 1100)),
    seq2seq(100, *meng(90, 550)),
    seq2seq(200, *meng(20, 230)),
    seq2seq(400, *meng(2, 60)),
    Row(
        "BERT, base",
        Program(HERE / "bert.py", ""),
        "v100-16g",
        "Capuchin 2020, P100 of 16 GB: 7 times the batch",
        None,
        budget="15GiB",
    ),
]
OVERHEADS = (0.03, 0.1, 0.25, 0.5)
HEADS = ["net", "machine, memory", "the paper", "overhead there", "plain PyTorch", "without paging"]
HEADS += [*(f"at {overhead:.0%}" for overhead in OVERHEADS), "at any cost"]


def machine_of(row: Row, folder: Path) -> str:
    """The machine, or a file of it with a newer compute capability, if torch has no recurrent nets for its own."""
    if not row.has_cudnn_rnn:
        return row.machine
    text = subprocess.run([COMMAND, "machine", row.machine], stdout=subprocess.PIPE, text=True, check=True).stdout
    path = folder / f"{row.machine}.machine"
    path.write_text(re.sub(r"compute=\S+", f"compute={OLDEST}", text))
    return str(path)


def fit(row: Row, machine: str, *more: str) -> dict:
    options = ["--machine", machine, "--budget", row.budget, "--planner", "hybrid", "--link-share", "100", *more]
    program = [sys.executable, row.program.path, *row.program.options.split(), "--batch", "{batch}"]
    words = [COMMAND, "fit", "--json", *options, "--", *program]
    found = json.loads(subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True).stdout)
    del found["tried"]  # many
    return {**found, "machine": row.machine}


def at_its_batch(row: Row, machine: str, folder: Path) -> dict:
    if row.reached is None:
        return {"fits": False}
    return plan_with(machine, row.budget, trace_of(row.program.with_batch(row.reached), machine, folder))


def cell(point: dict | None) -> str:
    return f"{point['size']} ({percent(point['overhead'])}%)" if point else "none"


def size_of(point: dict | None) -> str:
    return or_none(point and point["size"])


def make(row: Row, folder: Path) -> tuple[list, dict]:
    machine = machine_of(row, folder)
    there, found = at_its_batch(row, machine, folder), fit(row, machine)
    within = {entry["overhead"]: entry["largest"] for entry in found["within"]}
    overhead = f"{percent(there['overhead'])}%" if there["fits"] else "not stated" if row.reached is None else "none"
    cells = [row.name, f"`{row.machine}`, {row.budget}", row.paper, overhead]
    cells += [or_none(found["plain"]), size_of(found["unpaged"])]
    cells += [cell(within[overhead]) for overhead in OVERHEADS] + [cell(found["largest"])]
    return cells, {"name": row.name, "paper": row.paper, "reached": row.reached, "there": there, "fit": found}
