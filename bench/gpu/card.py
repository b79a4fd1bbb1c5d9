"""What bench/gpu/run does once all is built: bits under a budget, then times, paged and plain in turn.

card.py OUT [--seconds N] [--emulate CARD] [--only doctor,checks,NAME]
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS, CONTRACT = ROOT / "test" / "programs", ROOT / "test" / "contract"
TENSORPAGER = Path(sys.executable).with_name("tensorpager")
# Programs of the tests, each with plans: name, share of the need.
CHECKED = [
    ("gpt", 0.5), ("unet", 0.6), ("transformer_encoder", 0.5), ("checkpointing", 0.5), ("resnet", 0.6), ("accumulation", 0.5),
    ("adamw_fused", 0.5), ("adamw_foreach", 0.5), ("padded_batches", 0.6), ("lstm_cell", 0.6), ("gan", 0.6), ("views", 0.6),
]  # fmt: skip
ON_DEMAND = [("gpt", 0.5), ("cnn", 0.6), ("two_streams", 0.5)]  # of paging_programs.py
ABOVE_FLOOR = 1.15  # a budget is no less: small nets need little beside a workspace of cuDNN


@dataclass(frozen=True)
class Work:
    """A program of work.py to be timed: its batch on a card and on an emulated one, shares of plain torch's peak, and torch's own ways."""

    batch: int
    tiny: int
    shares: tuple = (0.75, 0.5, 0.33)
    of_torch: tuple = ("--save-on-cpu",)


TRANSFORMER = {"shares": (0.6, 0.45), "of_torch": ("--checkpoint", "--save-on-cpu")}
TIMED = {
    "launch_bound": Work(8, 8, shares=(8.0,), of_torch=()),
    "gpt2_medium": Work(16, 8, **TRANSFORMER),
    "resnet50": Work(256, 8),
    "llama_1b": Work(8, 4, **TRANSFORMER),
    "resnet152": Work(128, 4),
    "vgg16": Work(256, 4),
}
STEPS, STEPS_OF_TORCH = 32, 8  # plans that recompute are found after some steps
# Deterministic, as torch wants it; the small programs of the tests would not have the 8 x 4 MiB for each thread.
SMALL, LARGE = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
OF_A_RUN = (
    "peak_bytes", "page_ins", "page_in_bytes", "page_out_bytes", "drops", "rebuilds", "predicted_overhead", "predicted_window_seconds",
    "followed_windows", "windows_as_planned", "followed_ops", "ops_as_planned", "plan_misses", "resized_ops", "planned_difference_bytes",
    "slab_bytes", "plans", "replay_differences", "stall_seconds", "handling_seconds", "pinned_bytes", "failed_actions", "process_seconds",
)  # fmt: skip


class Card:
    def __init__(self, out, seconds, emulate):
        self.out, self.end, self.emulate = out, time.monotonic() + seconds, emulate
        self.found = {"checks": [], "times": [], "skipped": []}
        out.mkdir(parents=True, exist_ok=True)
        self.failures = (out / "failures.log").open("w")

    def left(self):
        return self.end - time.monotonic()

    def skip(self, what, why):
        self.found["skipped"].append(f"{what}: {why}")

    def run(self, program, *arguments, budget=None, options=(), variables=SMALL):
        """Standard output, statistics and an error's last line; None for the first where it failed."""
        with tempfile.TemporaryDirectory() as folder:
            stats = Path(folder) / "stats.json"
            command = [sys.executable, "-X", "faulthandler", program, *arguments]
            if budget or self.emulate:
                card = ["--emulate", self.emulate, "--emulate-seed", "1"] if self.emulate else []
                paged = ["--device", "cuda", "--budget", budget, "--stats", stats, *options] if budget else []
                command = [TENSORPAGER, "run", "--quiet", *card, *paged, "--", *command]
            command = list(map(str, command))
            begun = time.monotonic()
            try:
                done = subprocess.run(
                    command,
                    env=os.environ | variables,
                    capture_output=True,
                    text=True,
                    timeout=max(1, min(120, self.left())),
                )
            except subprocess.TimeoutExpired as late:
                self.failures.write(
                    f"$ {' '.join(command)}\n{(late.stderr or b'').decode()[-4000:]}\ntook too long\n\n"
                )
                return None, {}, "took too long"
            figures = json.loads(stats.read_text()) if stats.exists() else {}
            figures["process_seconds"] = round(time.monotonic() - begun, 1)
        if done.returncode == 0:
            return done.stdout, figures, ""
        self.failures.write(f"$ {' '.join(command)}\n{done.stderr[-6000:]}\nstatus {done.returncode}\n\n")
        self.failures.flush()
        return None, figures, (done.stderr.splitlines() or [f"status {done.returncode}"])[-1]

    def check(self, name, program, *arguments, share, options=()):
        """Whether the output is the same with an ample budget, and with this share of what the program needs."""
        if self.left() < 20:
            return self.skip(f"check of {name}", "no time left")
        command = [HERE / "deterministic.py", program, *arguments]
        plain, _, error = self.run(*command)
        if plain is None:
            return self.skip(f"check of {name}", f"it fails without a budget: {error}")
        ample, need, error = self.run(*command, budget="4GiB")
        if digest(ample) != digest(plain):
            row = {"name": name, "budget": "4GiB", "bits": False, "error": error}
            return self.found["checks"].append(self.with_repeat(row, plain, command))
        budget = int(max(need["need_bytes"] * share, need["floor_bytes"] * ABOVE_FLOOR))
        paged, figures, error = self.run(*command, budget=budget, options=options)
        row = {"name": name, "budget": budget, "bits": digest(paged) == digest(plain), "error": error}
        row |= {key: figures.get(key) for key in OF_A_RUN}
        self.found["checks"].append(self.with_repeat(row, plain, command))
        print(self.found["checks"][-1], flush=True)
        self.write()

    def with_repeat(self, row, plain, command):
        """Tells bits that differ from a program that differs from itself."""
        if not row["bits"]:
            row["repeats"] = digest(self.run(*command)[0]) == digest(plain)
        return row

    def work(self, name, *flags, budget=None, variant="plain"):
        of = TIMED[name]
        size = ["--batch", of.tiny, "--size", "tiny"] if self.emulate else ["--batch", of.batch]
        if self.left() < 30:
            return self.skip(f"time of {name}, {variant}", "no time left")
        printed, figures, error = self.run(
            HERE / "work.py",
            name,
            *size,
            "--steps",
            STEPS_OF_TORCH if flags else STEPS,
            *flags,
            budget=budget,
            options=["--plan-sync"],
            variables=SMALL if self.emulate else LARGE,
        )
        if printed is None:
            return self.skip(f"time of {name}, {variant}", error)
        row = {"name": name, "variant": variant, "budget": budget} | json.loads(printed.splitlines()[-1])
        row["loss"] = row.pop("losses")[-1]
        row |= {key: figures.get(key) for key in OF_A_RUN}
        plain = self.plain_of(name)
        if plain and budget:
            row["bits"] = row["digest"] == plain["digest"]
        self.found["times"].append(row)
        print(row, flush=True)
        self.write()
        return row

    def plain_of(self, name):
        return next((row for row in self.found["times"] if row["name"] == name and row["variant"] == "plain"), None)

    def times_of(self, name):
        """Plain, under shares of its peak, in torch's own ways, and under what those need."""
        plain = self.work(name)
        if plain is None:
            return
        for share in TIMED[name].shares:
            self.work(name, budget=int(plain["max_allocated_bytes"] * share), variant=f"paged to {share:.0%}")
        for flag in TIMED[name].of_torch:
            way = flag.strip("-").replace("-", "_")
            peer = self.work(name, flag, variant=way)
            if peer:
                self.work(name, budget=peer["max_allocated_bytes"], variant=f"paged to the peak of {way}")

    def ask(self, key, *command):
        """What a command of tensorpager says of this card."""
        if not self.emulate:
            done = subprocess.run([TENSORPAGER, *command], capture_output=True, text=True, timeout=90)
            self.found[key] = done.stdout + done.stderr
            print(self.found[key], flush=True)
            self.write()

    def write(self):
        (self.out / "gpu.json").write_text(json.dumps(self.found, indent=1))
        (self.out / "gpu.md").write_text(table(self.found))


def digest(printed):
    """What a program's result is; its figures of memory differ."""
    if printed is None:
        return None
    last = printed.strip().splitlines()[-1]
    return json.loads(last)["digest"] if last.startswith("{") else printed


def bits_of(row):
    if row["bits"]:
        return "equal"
    if row.get("repeats") is False:
        return "the program differs from itself"
    return f"DIFFERENT: {row['error']}"


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
        lines.append(f"| {row['name']} | {row['budget']} | {bits_of(row)} | {planned} |")
    lines += [
        "",
        "| work | variant | peak, GiB | seconds a step | of which the host submits | over plain | over the prediction | bits |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["times"]:
        plain = next(one for one in found["times"] if one["name"] == row["name"])
        bits = {True: "equal", False: "DIFFERENT", None: "-"}[row.get("bits")]
        predicted = row.get("predicted_window_seconds")
        over = f"{row['seconds'] / predicted - 1:+.1%}" if predicted else "-"
        lines.append(
            f"| {row['name']} | {row['variant']} | {row['max_allocated_bytes'] / gib:.2f} | {row['seconds']:.4f} "
            f"| {row['host_seconds']:.4f} "
            f"| {row['seconds'] / plain['seconds'] - 1:+.1%} | {over} | {bits} |"
        )
    return "\n".join([*lines, "", *(f"- skipped: {one}" for one in found["skipped"]), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=int, default=540)
    parser.add_argument("--emulate", default="")
    parser.add_argument("--only", default=",".join(["doctor", "checks", *TIMED]))
    args = parser.parse_args()
    import torch

    if not args.emulate and not torch.cuda.is_available():
        raise SystemExit("bench/gpu: torch finds no GPU here; try --emulate h100-80g")
    card = Card(args.out, args.seconds, args.emulate)
    card.found |= {"torch": torch.__version__}
    card.found["card"] = f"an emulated {args.emulate}" if args.emulate else torch.cuda.get_device_name(0)
    only = args.only.split(",")
    try:
        if "doctor" in only:
            card.ask("doctor", "doctor")
            card.ask("machine", "machine", "--measure", "--device", "cuda")
        if "checks" in only:
            # Side by side: bits do not depend on times.
            with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
                checks = [
                    pool.submit(
                        card.check,
                        name,
                        CONTRACT / "paging_programs.py",
                        name,
                        0,
                        share=share,
                        options=["--on-demand"],
                    )
                    for name, share in ON_DEMAND
                ]
                checks += [
                    pool.submit(
                        card.check,
                        name,
                        PROGRAMS / f"{name}.py",
                        "--device",
                        "cuda",
                        "--steps",
                        12,
                        share=share,
                        options=["--plan-sync"],
                    )
                    for name, share in itertools.islice(CHECKED, 2 if args.emulate else None)
                ]
            for check in checks:
                check.result()
        for name in TIMED:
            if name in only:
                card.times_of(name)
    finally:
        card.write()
    print(table(card.found))
    if any(not row["bits"] and row.get("repeats") is not False for row in card.found["checks"]):
        raise SystemExit("bench/gpu: bits differ; see above")


if __name__ == "__main__":
    main()
