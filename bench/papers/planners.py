"""The planners of published systems beside ours, on the papers' programs: a table.

The overhead of each planner's plan over the step's compute in percent, or `none` where it has no plan. Of hybrid's plan also:
the bytes that it pages out in a step and the most that have a slot on the host at once, the latter in percent of what
hybrid and what vdnn pages out, and the waste of its placement.
"""

import concurrent.futures
import functools
import os
from pathlib import Path

from planned import GB, GIB, Row, large, plan_with, trace_of, vision
from table import percent

PLANNERS = "meng vdnn vdnnpp accudnn layrub sqrt dtr monet capuchin recompute pages hybrid".split()
HEADS_OF_BYTES = ["out / host, GiB", "of out", "of vdnn's out", "waste"]  # of hybrid's plan; shares in percent
HEADS = ["program", "machine, budget", "published", *PLANNERS, *HEADS_OF_BYTES]
SECONDS_FOR_A_PLAN = 600


ROWS = [
    Row("ResNet-50, batch 664", vision("resnet50", 664), "m40-12g", "12GiB", "Meng: fits; swaps lose < 10 %"),
    Row("Inception-V3, batch 548", vision("inception_v3", 548), "m40-12g", "12GiB", "Meng: fits; swaps lose < 10 %"),
    Row("VGG-16, batch 256", vision("vgg16", 256), "titanx-12g", "12GiB", "vDNN: 18 %"),
    Row("ResNet-152, batch 133", vision("resnet152", 133), "m40-12g", "8GiB", "AccUDNN: from 24 to 8 GB"),
    Row("ResNet-50, batch 144", vision("resnet50", 144), "m40-12g", "42%", "Layrub: 24.1 % on average"),
    Row("ResNet-101, batch 64", vision("resnet101", 64), "m40-12g", "42%", "Layrub: 24.1 % on average"),
    Row("Inception-V3, batch 128", vision("inception_v3", 128), "m40-12g", "42%", "Layrub: 24.1 % on average"),
    Row("ResNet-50, batch 184", vision("resnet50", 184), "m40-12g", f"{10.0 * GB:.0f}", "MONeT: 3.2 %"),
    Row("ResNet-50, batch 184", vision("resnet50", 184), "m40-12g", f"{6.0 * GB:.0f}", "MONeT: 9.3 %"),
    Row("ResNet-50, batch 184", vision("resnet50", 184), "m40-12g", f"{4.99 * GB:.0f}", "MONeT: 11.95 %"),
    Row("Inception-v4, batch 64", vision("inception_v4", 64), "m40-12g", "55%", "DTR: 14.7 %"),
    Row("Inception-v4, batch 64", vision("inception_v4", 64), "m40-12g", "38%", "DTR: 25.2 %"),
    Row("DCGAN, batch 1024", large("dcgan", "--batch 1024"), "m40-12g", "60%", "Meng: batch 24 to 48"),
    Row(
        "Seq2Seq T = 50, batch 1100",
        large("seq2seq", "--length 50 --batch 1100 --width 512 --words 8000"),
        "m40-12g",
        "12GiB",
        "Meng: fits",
        traced_on="h200-141g",
    ),
    Row("ResNet-1001, batch 32", large("resnet50", "--depth 1001 --batch 32"), "m40-12g", "12GiB", "Meng: fits", True),
    Row(
        "ResNet-2000, batch 16", large("resnet50", "--depth 2000 --batch 16"), "m40-12g", "12GiB", "Layup: 2,504", True
    ),
    Row(
        "Seq2Seq T = 400, batch 60",
        large("seq2seq", "--length 400 --batch 60 --width 512 --words 8000"),
        "m40-12g",
        "12GiB",
        "Meng: fits",
        True,
        "h200-141g",
    ),
    Row("ResNet-2000, batch 32", large("resnet50", "--depth 2000 --batch 32"), "m40-12g", "12GiB", "Meng: fits", True),
    Row(
        "ResNet-8000, batch 16",
        vision("resnet8000", 16, "--no-foreach"),
        "m40-12g",
        "12GiB",
        "Layup: 2,504",
        True,
    ),
    Row(
        "Llama of 8 billion, 4 x 4096",
        large("llama8b", "--batch 4 --length 4096 --chunks 16 --in-backward"),
        "h200-141g",
        "24GiB",
        "none",
        True,
    ),
]


def cell(found: dict) -> str:
    if found.get("late"):
        return "too long"
    return percent(found["overhead"]) if found["fits"] else "none"


def cells_of_bytes(plans: dict) -> list[str]:
    hybrid, vdnn = plans["hybrid"], plans.get("vdnn", {"fits": False})
    if not hybrid["fits"]:
        return ["none"] * len(HEADS_OF_BYTES)
    out, host = hybrid["page_out_bytes"], hybrid["host_bytes"]
    of_vdnn = percent(host / vdnn["page_out_bytes"], 0) if vdnn["fits"] else "none"
    of_out = percent(host / out, 0) if out else "none"
    return [f"{out / GIB:.1f} / {host / GIB:.1f}", of_out, of_vdnn, percent(hybrid["placement_waste"])]


def make(row: Row, folder: Path) -> tuple[list, dict]:
    trace = trace_of(row.program, row.traced_on or row.machine, folder)
    plan = functools.partial(plan_with, row.machine, row.budget, trace, timeout=SECONDS_FOR_A_PLAN)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(PLANNERS, pool.map(plan, PLANNERS)))
    budget = row.budget if not row.budget.isdigit() else f"{int(row.budget) / GB:g} GB"
    place = f"`{row.machine}`, {budget}"
    cells = [row.name, place, row.published, *map(cell, found.values()), *cells_of_bytes(found)]
    return cells, {"name": row.name, "place": place, "published": row.published, "plans": found}
