"""What bench/gpu/run does once all is built: bits under a budget, then times, paged and plain in turn.

card.py OUT [--seconds N] [--emulate CARD]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS, CONTRACT = ROOT / "test" / "programs", ROOT / "test" / "contract"
TENSORPAGER = Path(sys.executable).with_name("tensorpager")
# Programs of the tests, each with plans: name, arguments, share of the need.
CHECKED = [
    ("gpt", 0.5), ("unet", 0.6), ("transformer_encoder", 0.5), ("checkpointing", 0.5), ("resnet", 0.6), ("accumulation", 0.5),
    ("adamw_fused", 0.5), ("adamw_foreach", 0.5), ("padded_batches", 0.6), ("lstm_cell", 0.6), ("gan", 0.6), ("views", 0.6),
]  # fmt: skip
ON_DEMAND = [("gpt", "12MiB"), ("cnn", "4MB"), ("two_streams", "3MB")]  # of paging_programs.py
TIMED = {"resnet50": (256, 8), "gpt2_medium": (16, 8)}  # name: batch on a card, batch of the tiny one
SHARES = (0.75, 0.5, 0.33)
# Deterministic, as torch wants it; the small programs of the tests would not have the 8 x 4 MiB for each thread.
SMALL, LARGE = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


class Card:
    def __init__(self, out, seconds, emulate):
        self.out, self.end, self.emulate = out, time.monotonic() + seconds, emulate
        self.found = {"checks": [], "times": [], "skipped": []}

    def left(self):
        return self.end - time.monotonic()

    def run(self, program, *arguments, budget=None, options=(), variables=SMALL):
        """Standard output, statistics and an error's last line; None for the first where it failed."""
        stats = self.out / "stats.json"
        stats.unlink(missing_ok=True)
        command = [sys.executable, program, *map(str, arguments)]
        if budget or self.emulate:
            card = ["--emulate", self.emulate, "--emulate-seed", "1"] if self.emulate else []
            paged = ["--device", "cuda", "--budget", str(budget), "--stats", stats, *options] if budget else []
            command = [TENSORPAGER, "run", "--quiet", *card, *paged, "--", *command]
        environment = os.environ | variables
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=max(1, min(150, self.left()))
            )
        except subprocess.TimeoutExpired:
            return None, {}, "took too long"
        figures = json.loads(stats.read_text()) if stats.exists() else {}
        return done.stdout if done.returncode == 0 else None, figures, "".join(done.stderr.splitlines()[-1:])

    def check(self, name, program, *arguments, share=None, budget=None, options=()):
        """The same output under a budget."""
        if self.left() < 20:
            return self.found["skipped"].append(f"check of {name}: no time left")
        plain, _, error = self.run(program, *arguments)
        if plain is None:
            return self.found["skipped"].append(f"check of {name}: it fails without a budget: {error}")
        if share:
            unlimited, need, error = self.run(program, *arguments, budget="4GiB")
            budget = int(need.get("need_bytes", 0) * share)
            if unlimited != plain:
                return self.found["checks"].append({"name": name, "budget": "4GiB", "bits": False, "error": error})
        paged, figures, error = self.run(program, *arguments, budget=budget, options=options)
        row = {"name": name, "budget": budget, "bits": digest(paged) == digest(plain), "error": "" if paged else error}
        for key in ("peak_bytes", "page_ins", "followed_windows", "windows_as_planned", "failed_actions"):
            row[key] = figures.get(key)
        self.found["checks"].append(row)
        print(row, flush=True)

    def work(self, name, share=None, **flags):
        batch, tiny = TIMED[name]
        arguments = [
            name,
            "--batch",
            tiny if self.emulate else batch,
            *[f"--{flag.replace('_', '-')}" for flag in flags],
        ]
        arguments += ["--size", "tiny"] if self.emulate else []
        plain = next((row for row in self.found["times"] if row["name"] == name and row["variant"] == "plain"), None)
        budget = int(plain["max_allocated_bytes"] * share) if share else None
        variant = f"paged to {share:.0%}" if share else " ".join(flags) or "plain"
        if self.left() < 40 or (share and plain is None):
            return self.found["skipped"].append(f"time of {name}, {variant}: no time left, or nothing to compare with")
        printed, figures, error = self.run(
            HERE / "work.py", *arguments, budget=budget, variables=SMALL if self.emulate else LARGE
        )
        if printed is None:
            return self.found["skipped"].append(f"time of {name}, {variant}: {error}")
        row = {"name": name, "variant": variant, "budget": budget} | json.loads(printed.splitlines()[-1])
        losses = row.pop("losses")
        row["loss"] = losses[-1]
        if plain and share:
            row["bits"] = row["digest"] == plain["digest"]
        for key in ("predicted_overhead", "followed_windows", "windows_as_planned", "page_in_bytes", "page_out_bytes"):
            row[key] = figures.get(key)
        self.found["times"].append(row)
        print(row, flush=True)

    def write(self):
        (self.out / "gpu.json").write_text(json.dumps(self.found, indent=1))
        (self.out / "gpu.md").write_text(table(self.found))


def digest(printed):
    """What a program's result is; its figures of memory differ."""
    if printed is None:
        return None
    last = printed.strip().splitlines()[-1]
    return json.loads(last)["digest"] if last.startswith("{") else printed


def table(found):
    gib = 1 << 30
    lines = [
        f"Measured on {found['card']}; torch {found['torch']}.",
        "",
        "| program | budget | bits | windows as planned |",
        "|---|---|---|---|",
    ]
    for row in found["checks"]:
        planned = f"{row.get('windows_as_planned')} of {row.get('followed_windows')}"
        lines.append(
            f"| {row['name']} | {row['budget']} | {'equal' if row['bits'] else 'DIFFERENT: ' + row['error']} | {planned} |"
        )
    lines += ["", "| work | variant | peak, GiB | seconds a step | over plain | bits |", "|---|---|---|---|---|---|"]
    for row in found["times"]:
        plain = next(one for one in found["times"] if one["name"] == row["name"])
        bits = {True: "equal", False: "DIFFERENT", None: "-"}[row.get("bits")]
        ratio = row["seconds"] / plain["seconds"]
        lines.append(
            f"| {row['name']} | {row['variant']} | {row['max_allocated_bytes'] / gib:.2f} | {row['seconds']:.4f} | {ratio:.2f} | {bits} |"
        )
    return "\n".join([*lines, "", *(f"- skipped: {one}" for one in found["skipped"]), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=int, default=540)
    parser.add_argument("--emulate", default="")
    args = parser.parse_args()
    import torch

    if not args.emulate and not torch.cuda.is_available():
        raise SystemExit("bench/gpu: torch finds no GPU here; try --emulate h100-80g")
    card = Card(args.out, args.seconds, args.emulate)
    card.found |= {"torch": torch.__version__}
    card.found["card"] = f"an emulated {args.emulate}" if args.emulate else torch.cuda.get_device_name(0)
    try:
        for name, budget in ON_DEMAND:
            card.check(name, CONTRACT / "paging_programs.py", name, 0, budget=budget, options=["--on-demand"])
        for name, share in CHECKED[:2] if args.emulate else CHECKED:
            card.check(
                name, PROGRAMS / f"{name}.py", "--device", "cuda", "--steps", 12, share=share, options=["--plan-sync"]
            )
        card.write()
        for name in TIMED:
            card.work(name)
            for share in SHARES:
                card.work(name, share=share)
            card.work(name, save_on_cpu=True)
            if name == "gpt2_medium":
                card.work(name, checkpoint=True)
    finally:
        card.write()
    print(table(card.found))
    if not all(row["bits"] for row in card.found["checks"]):
        raise SystemExit("bench/gpu: bits differ; see above")


if __name__ == "__main__":
    main()
