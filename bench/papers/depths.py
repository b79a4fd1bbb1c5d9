"""ResNets of 101 to 2000 layers at batch 32 in the memory to which Meng et al. (2017) brought them: a table."""

from pathlib import Path
from typing import NamedTuple

from planned import MB, large, of_trace, plan_with, trace_of
from table import percent

MACHINE = "m40-12g"
ABOVE_FLOOR = 1.1  # the least budget tried


class Row(NamedTuple):
    name: str
    depth: int
    before: str  # the paper's peak, MB
    after: int  # with its planner
    full: bool = False  # takes minutes


ROWS = [
    Row("ResNet-101", 101, "5815", 2660),
    Row("ResNet-200", 200, "10662", 3052),
    Row("ResNet-1001", 1001, "out of memory", 5979, True),
    Row("ResNet-2000", 2000, "out of memory", 10650, True),
]


HEADS = [
    "net",
    "the paper, MB",
    "need, MB",
    "overhead in the paper's peak, %",
    f"{ABOVE_FLOOR} of the floor, MB",
    "overhead there, %",
]


def make(row: Row, folder: Path) -> tuple[list, dict]:
    trace = trace_of(large("resnet50", f"--depth {row.depth}").with_batch(32), MACHINE, folder)
    alone = of_trace(MACHINE, trace)
    least = int(ABOVE_FLOOR * alone["floor_bytes"])
    budgets = {"paper": min(row.after * MB, alone["need_bytes"]), "least": least}
    plans = {name: plan_with(MACHINE, str(budget), trace) for name, budget in budgets.items()}
    overheads = {name: percent(plan["overhead"]) if plan["fits"] else "none" for name, plan in plans.items()}
    cells = [row.name, f"{row.before} -> {row.after}", alone["need_bytes"] // MB]
    cells += [overheads["paper"], least // MB, overheads["least"]]
    return cells, {**row._asdict(), "alone": alone, "plans": plans}
