"""The largest batches of the papers' nets in the papers' memory, by `tensorpager fit`: simulated, no GPU is used.

.venv/bin/python bench/papers/batches.py [--only resnet50] [--json out/batches.json]

Prints a table in Markdown. The machines' links are planned with whole, since their rates are those that links deliver.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

COMMAND = Path(sys.executable).with_name("tensorpager")
PROGRAM = Path(__file__).with_name("vision.py")


class Row(NamedTuple):
    model: str
    machine: str
    budget: str
    paper: str  # what it reached


ROWS = [
    Row("resnet50", "m40-12g", "12GiB", "Meng 2017, Tesla M40: 144 -> 664"),
    Row("inception_v3", "m40-12g", "12GiB", "Meng 2017, Tesla M40: 208 -> 548"),
    Row("vgg16", "titanx-12g", "12GiB", "vDNN 2016, Titan X: 256 at 18 % loss"),
]
OVERHEADS = (0.03, 0.1, 0.25, 0.5)


def found(row: Row) -> dict:
    options = ["--machine", row.machine, "--budget", row.budget, "--planner", "hybrid", "--link-share", "100"]
    program = [sys.executable, PROGRAM, "--model", row.model, "--batch", "{batch}"]
    words = [COMMAND, "fit", "--json", *options, "--", *program]
    return json.loads(subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True).stdout)


def cell(point: dict | None) -> str:
    return f"{point['size']} ({point['overhead']:.1%})" if point else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[row.model for row in ROWS])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    heads = ["net", "machine, memory", "the paper", "plain PyTorch", "without paging"]
    heads += [f"at {overhead:.0%}" for overhead in OVERHEADS] + ["at any cost"]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    results = {}
    for row in ROWS:
        if options.only and row.model not in options.only:
            continue
        results[row.model] = result = found(row)
        within = {entry["overhead"]: entry["largest"] for entry in result["within"]}
        cells = [row.model, f"`{row.machine}`, {row.budget}", row.paper, result["plain"], result["unpaged"]["size"]]
        cells += [cell(within[overhead]) for overhead in OVERHEADS] + [cell(result["largest"])]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
