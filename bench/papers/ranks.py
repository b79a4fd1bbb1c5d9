"""Eight ranks of data-parallel training at the batch with the most samples a second that overheads of 10 % allow: a table.

Gradients are averaged by a ring of 10 GB/s, as DistributedDataParallel does it. The scaling is over eight times one rank.
"""

from pathlib import Path
from typing import NamedTuple

from batches import fit
from planned import Program, vision
from table import Table, percent

RANKS = ("--ranks", "8", "--interconnect", "10GB/s")


class Row(NamedTuple):
    name: str
    program: Program
    machine: str
    published: str
    budget: str = "12GiB"
    full: bool = False


ROWS = [
    Row("ResNet-152", vision("resnet152"), "m40-12g", "AccUDNN: 4.2 times Caffe's batch; 7.7 times one GPU on 8"),
    Row("ResNet-152", vision("resnet152"), "m40-12g", "AccUDNN: from 24 to 8 GB", "8GiB"),
    Row("ResNet-50", vision("resnet50"), "m40-12g", ""),
    Row("VGG-16", vision("vgg16"), "titanx-12g", ""),
]


def make(rows: list[Row], folder: Path) -> Table:
    heads = ["net", "machine, memory", "published", "plain PyTorch's batch", "the quickest", "at 10 %"]
    table = Table([*heads, "samples a second", "scaling on 8, %", "if all were resident, %"])
    for row in rows:
        found = fit(row, row.machine, *RANKS)
        ranks, within = found["data_parallel"], {at["overhead"]: at["largest"] for at in found["within"]}
        cells = [row.name, f"`{row.machine}`, {row.budget}", row.published, found["plain"], found["quickest"]["size"]]
        cells += [within[0.1]["size"], f"{ranks['per_second']:.0f}"]
        cells += [percent(ranks["efficiency"]), percent(ranks["efficiency_resident"])]
        table.add(cells, {**row._asdict(), "program": row.program.options, "fit": found})
    return table
