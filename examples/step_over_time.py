"""Draws one training step over time, as SVG: without a budget, under a plan that pages, and under one that recomputes as well.

.venv/bin/python examples/step_over_time.py TRACE --budget 33% --machine m40-12g -o step.svg [--name "ResNet-50, batch 144"]

Simulated. TRACE is a file of `tensorpager trace`; those of test/data are examples.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

from bytes_over_time import (
    BUDGET,
    HELD,
    INK,
    LEFT,
    MUTED,
    RESIDENT,
    RIGHT,
    Curve,
    Plot,
    axes,
    legend,
    level,
    line,
    page,
    size,
    text,
)

COMMAND = pathlib.Path(sys.executable).with_name("tensorpager")
PANELS = {"pages": "Paging only", "hybrid": "Paging and recomputation"}
FIRST, HIGH, APART = 136, 170, 252  # of the panels, in pixels: top of the first, height, from one top to the next
MS = 1e3


def simulate(trace, machine, planner, budget, *more):
    command = [COMMAND, "simulate", trace, "--machine", machine, "--planner", planner, "--budget", budget]
    done = subprocess.run([*command, *more, "--json", "--curve"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr or f"{planner}: no plan for {budget}: {done.stdout}")
    return json.loads(done.stdout)


def curve_of(figures, interval):
    """The most in memory in each interval of so many ms, at least one op long."""
    curve = Curve([], [])
    for start, charged in zip(figures["op_starts"], figures["curve"], strict=True):
        if curve.ops and MS * start < curve.ops[-1] + interval:
            curve.values[-1] = max(curve.values[-1], charged)
        else:
            curve.ops.append(MS * start)
            curve.values.append(charged)
    return curve


def what_it_takes(title, figures):
    words = (
        f"{title}: {MS * figures['step_seconds']:,.0f} ms, {100 * figures['overhead']:.1f} % more than without a budget"
    )
    parts = [
        f"{MS * figures['stall_seconds']:,.0f} ms are waiting",
        f"{size(figures['page_out_bytes'])} move out and in",
    ]
    if figures["recompute_seconds"]:
        parts.insert(1, f"{MS * figures['recompute_seconds']:,.0f} ms are ops that run again")
    return words, "; ".join(parts)


def panel(name, figures, plain, budget, plot):
    title, details = what_it_takes(PANELS[name], figures)
    end = plot.x(MS * figures["step_seconds"])
    return [
        text(LEFT, plot.y_top - 22, title, INK, font=14, weight="600"),
        text(LEFT, plot.y_top - 5, details, MUTED, font=12),
        *axes(plot, "ms"),
        plot.area(curve_of(plain, plot.ops / (RIGHT - LEFT)), HELD, 0.35, MS * plain["step_seconds"]),
        plot.area(curve_of(figures, plot.ops / (RIGHT - LEFT)), RESIDENT, 0.6, MS * figures["step_seconds"]),
        *level(plot, f"budget-{name}", budget, BUDGET, f"budget {size(budget)}"),
        line(end, end, plot.y_top, plot.y_bottom, INK),
    ]


def render(name, machine, plain, planned, budget):
    longest = MS * max(figures["step_seconds"] for figures in planned.values())
    parts = legend([(HELD, 0.35, "in memory, without a budget"), (RESIDENT, 0.6, "in memory, under the budget")])
    for number, (planner, figures) in enumerate(planned.items()):
        top = FIRST + number * APART
        plot = Plot(math.ceil(longest * 1.02), plain["need_bytes"], (top, top + HIGH), ticks=4)
        parts += panel(planner, figures, plain, budget, plot)
    share = f"{100 * budget / plain['need_bytes']:.0f} %"
    title = f"One training step of {name} in {share} of its memory"
    subtitle = f"Need {size(plain['need_bytes'])}, budget {size(budget)}; {MS * plain['step_seconds']:,.0f} ms without a budget; simulated on {machine}"
    caption = "A vertical line marks the end of the step. The next step follows at once."
    return page(parts, title, subtitle, caption, FIRST + len(planned) * APART)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--budget", required=True, help="as of tensorpager simulate: 8GiB, 33%%")
    parser.add_argument("--machine", required=True)
    parser.add_argument("--name", help="of the program; else the file's")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    # Half as much again as the need has room for all blocks, wherever they lie.
    plain = simulate(options.trace, options.machine, "resident", "150%", "--reserve", "0")
    planned = {name: simulate(options.trace, options.machine, name, options.budget) for name in PANELS}
    budget = planned["pages"]["budget_bytes"]
    options.output.write_text(render(options.name or options.trace.stem, options.machine, plain, planned, budget))
    print(options.output)


if __name__ == "__main__":
    main()
