"""What later systems published, and plans of ours for the same net and share of memory: a table."""

from pathlib import Path

import planned
from planned import GIB, Program, Row, large, of_trace, plan_with, trace_of, vision
from table import percent

LLAMA = "--batch 4 --length 4096 --in-backward"
ROWS = [
    Row(
        "ResNet-50, batch 1440",
        vision("resnet50", 1440),
        "v100-16g",
        "13.3%",
        "nnabla: 55 % of the speed at 7.5 times what fits",
    ),
    Row(
        "ResNet-152, batch 256",
        vision("resnet152", 256),
        "v100-16g",
        "8.3%",
        "SwapAdvisor: 53 to 99 % of the speed in a 12th of the memory",
    ),
    Row(
        "GPT-2 small, batch 8",
        large("gpt2", "--autocast").with_batch(8),
        "a100-40g",
        "50%",
        "Rockmate, OffMate: up to 10 times less, 67 to 91 % of the speed",
    ),
    Row(
        "BERT, base, batch 128",
        Program(planned.HERE / "bert.py", "--batch 128"),
        "v100-16g",
        "50%",
        "Capuchin: up to 85 % less",
    ),
    Row(
        "Llama of 8 billion, 4 x 4096",
        large("llama8b", LLAMA),
        "h100-80g",
        "70GiB",
        "torchtitan: 105.6 % of the speed of full checkpointing in 69 to 72 GiB",
        full=True,
        compared_with=large("llama8b", f"{LLAMA} --checkpointing"),
    ),
]


HEADS = ["program", "machine, budget", "need, GiB", "published", "speed of hybrid, %", "of pages, %"]


def make(row: Row, folder: Path) -> tuple[list, dict]:
    trace = trace_of(row.program, row.machine, folder)
    alone = of_trace(row.machine, trace)
    other = of_trace(row.machine, trace_of(row.compared_with, row.machine, folder)) if row.compared_with else alone
    plans = {name: plan_with(row.machine, row.budget, trace, name) for name in ("hybrid", "pages")}
    speeds = [
        percent(other["step_seconds"] / plan["step_seconds"], 0) if plan["fits"] else "none" for plan in plans.values()
    ]
    cells = [row.name, f"`{row.machine}`, {row.budget}", f"{alone['need_bytes'] / GIB:.1f}", row.published, *speeds]
    return cells, {"name": row.name, "published": row.published, "alone": alone, "other": other, "plans": plans}
