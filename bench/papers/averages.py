"""How little memory the nets of vDNN (2016) are trained in, on average over a step: a table.

Parameters are updated one at a time, as in the paper's framework: torch's default updates all in one op, which needs them all.
"""

from pathlib import Path
from typing import NamedTuple

from planned import GIB, Program, of_trace, plan_with, trace_of, vision
from table import percent

MACHINE = "titanx-12g"
ABOVE_FLOOR = 1.1  # the budget


class Row(NamedTuple):
    name: str
    program: Program
    published: str  # of average memory
    full: bool = False


ROWS = [
    Row("AlexNet, batch 128", vision("alexnet", 128, "--no-foreach"), "-89 %"),
    Row("OverFeat, batch 128", vision("overfeat", 128, "--no-foreach"), "-91 %"),
    Row("GoogLeNet, batch 128", vision("googlenet", 128, "--no-foreach"), "-95 %"),
    Row("VGG-16, batch 256", vision("vgg16", 256, "--no-foreach"), "28 GB in 12 GB, at 18 %"),
]


HEADS = ["net", "vDNN", "need, GiB", "budget, % of it", "average, % of it", "overhead, %"]


def make(row: Row, folder: Path) -> tuple[list, dict]:
    trace = trace_of(row.program, MACHINE, folder)
    alone = of_trace(MACHINE, trace)
    need, budget = alone["need_bytes"], int(ABOVE_FLOOR * alone["floor_bytes"])
    plan = plan_with(MACHINE, str(budget), trace)
    of_plan = [percent(plan["average_bytes"] / need), percent(plan["overhead"])] if plan["fits"] else ["none"] * 2
    cells = [row.name, row.published, f"{need / GIB:.2f}", percent(budget / need), *of_plan]
    return cells, {"name": row.name, "published": row.published, "alone": alone, "plan": plan}
