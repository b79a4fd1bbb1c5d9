"""The papers' tables, beside ours: simulated, from traces of ordinary programs as a card would run them; no GPU is used.

.venv/bin/python bench/papers/run.py [--tables NAME ...] [--only TEXT ...] [--full] [-o docs/benchmarks]

Tables: batches, planners, depths, averages, field, ranks. --full adds rows that take minutes each, --only takes the
rows whose names have one of these texts. -o FOLDER writes papers.json and papers.md after each row, and pictures after
each table; rows that this run does not make stay as they are there.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import averages
import batches
import depths
import field
import pictures
import planners
import ranks
from table import head, line

TABLES = {
    "batches": batches,
    "planners": planners,
    "depths": depths,
    "averages": averages,
    "field": field,
    "ranks": ranks,
}


def chosen(rows: list, options: argparse.Namespace) -> list:
    return [row for row in rows if any(text in row.name for text in options.only) and (options.full or not row.full)]


def update(kept: list[dict], rows: list, made: dict[str, dict]) -> list[dict]:
    """Lines in the order of the rows; a row that was not made keeps its line."""
    lines = {entry["key"]: entry for entry in kept} | made
    return [lines[key] for key in map(key_of, rows) if key in lines]


def key_of(row) -> str:
    """Several rows may have one name."""
    return " ".join(str(getattr(row, name, "")) for name in ("name", "machine", "budget"))


def markdown(tables: dict) -> str:
    parts = [
        "# The papers' tables\n\nWritten by `bench/papers/run.py`; [what they say](../benchmarks.md#the-papers-batches) is told there."
    ]
    for name, table in tables.items():
        lines = [line(entry["cells"]) for entry in table["lines"]]
        picture = f"\n\n![{name}]({name}.svg)" if name in pictures.OF_TABLES else ""
        text = "\n".join([head(table["heads"]), *lines])
        parts.append(f"## {name.capitalize()}\n\n{table['what']}\n\n{text}{picture}")
    return "\n\n".join(parts) + "\n"


def timed(module, row, folder: Path) -> dict:
    """The row's line, printed, with the seconds that it took to make."""
    begin = time.perf_counter()
    cells, result = module.make(row, folder)
    seconds = round(time.perf_counter() - begin, 1)
    print(line(cells), flush=True)
    return {"key": key_of(row), "cells": list(map(str, cells)), "seconds": seconds, "result": result}


def write(tables: dict, folder: Path | None) -> None:
    if not folder:
        return
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "papers.json.partial"  # so that a run that is cut leaves a whole file
    partial.write_text(json.dumps(tables, indent=1) + "\n")
    partial.replace(folder / "papers.json")
    (folder / "papers.md").write_text(markdown(tables))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--only", nargs="+", default=[""], help="texts of the rows' names")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("-o", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    file = options.o / "papers.json" if options.o else None
    all_tables = json.loads(file.read_text()) if file and file.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.tables:
            module, begin = TABLES[name], time.perf_counter()
            rows = chosen(module.ROWS, options)
            print(f"\n## {name}\n\n{head(module.HEADS)}", flush=True)
            kept = update(all_tables.get(name, {}).get("lines", []), module.ROWS, {})
            what = " ".join(module.__doc__.strip().split())
            all_tables[name] = {"what": what, "heads": module.HEADS, "lines": kept}
            write(all_tables, options.o)
            for row in rows:
                made = timed(module, row, Path(folder))
                all_tables[name]["lines"] = update(all_tables[name]["lines"], module.ROWS, {made["key"]: made})
                write(all_tables, options.o)
            print(f"{len(rows)} rows in {time.perf_counter() - begin:.0f} s", flush=True)
            if options.o:
                pictures.write(all_tables, options.o)


if __name__ == "__main__":
    main()
