"""Eight ranks of data-parallel training at the batch with the most samples a second that overheads of 10 % allow: a table.

Gradients are averaged by a ring of 10 GB/s, as DistributedDataParallel does it. The scaling is over eight times one rank.
"""

from pathlib import Path
from typing import NamedTuple

from batches import fit, size_of
from planned import Program, vision
from table import or_none, percent

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


HEADS = ["net", "machine, memory", "published", "plain PyTorch's batch", "the quickest", "at 10 %"]
HEADS += ["samples a second", "scaling on 8, %", "if all were resident, %"]


def cells_of_ranks(ranks: dict | None) -> list[str]:
    if ranks is None:
        return ["none"] * 3
    return [f"{ranks['per_second']:.0f}", percent(ranks["efficiency"]), percent(ranks["efficiency_resident"])]


def make(row: Row, folder: Path) -> tuple[list, dict]:
    found = fit(row, row.machine, *RANKS)
    within = {at["overhead"]: at["largest"] for at in found["within"]}
    cells = [row.name, f"`{row.machine}`, {row.budget}", row.published, or_none(found["plain"])]
    cells += [size_of(found["quickest"]), size_of(within[0.1]), *cells_of_ranks(found["data_parallel"])]
    return cells, {**row._asdict(), "program": row.program.options, "fit": found}
