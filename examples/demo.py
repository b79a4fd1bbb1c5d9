"""A ResNet trains on Fashion-MNIST without a budget and under a quarter of the memory that it needs.

Three runs of examples/fashion_mnist.py, which does not know of Tensorpager: a few steps that measure the need, the
training by plain PyTorch, and the same training under a budget. Last, what the same network with a larger batch would
need on three cards, which needs none of them. Exit code 1 when one bit of a loss or parameter differs
or the budget is exceeded.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field

from bytes_over_time import MIB, Curve, Picture, render, size

EXAMPLES = pathlib.Path(__file__).resolve().parent
ROOT = EXAMPLES.parent
PACKAGE = "dataset-fashion-mnist"
DATA_PLACES = [ROOT / ".deps/usr/share/datasets/fashion-mnist", pathlib.Path("/usr/share/datasets/fashion-mnist")]
DATA_FILE = "train-images-idx3-ubyte.gz"
MEASURED_STEPS = 5  # enough for a plan to be made and followed, few enough to see in the picture
SHARE = 0.25  # of the need
CARDS = ("rtx4090-24g", "a100-40g", "h100-80g")
CARD_BATCH = 32768
FLOOR_MARGIN = 1.1  # above the floor, where a quarter of the need is less


@dataclass
class Run:
    """What a run of the program printed and used."""

    losses: list = field(default_factory=list)  # exact: hexadecimal floating point, one for each step
    digest: str = ""
    accuracy: float | None = None
    train_seconds: float | None = None
    resident_peak_bytes: int = 0  # of the whole process, by the kernel: the interpreter and libraries too

    def read(self, line):
        if found := re.match(r"step \d+ loss \S+ (\S+)", line):
            self.losses.append(found[1])
        elif found := re.match(r"test accuracy (\S+)", line):
            self.accuracy = float(found[1])
        elif found := re.match(r"train seconds (\S+)", line):
            self.train_seconds = float(found[1])
        elif found := re.match(r"digest (\S+)", line):
            self.digest = found[1]


def differences(plain, paged):
    """What is not equal to the last bit between two runs, a sentence each."""
    found = []
    if not plain.losses or len(plain.losses) != len(paged.losses):
        found.append(f"{len(plain.losses)} losses without a budget, {len(paged.losses)} under it")
    for step, (a, b) in enumerate(zip(plain.losses, paged.losses, strict=False)):
        if a != b:
            found.append(f"loss of step {step}: {a} without a budget, {b} under it")
    if not plain.digest or plain.digest != paged.digest:
        found.append(f"parameters: {plain.digest or 'none'} without a budget, {paged.digest or 'none'} under it")
    return found


def find_data(given):
    """The folder of the dataset: the given one, an installed package's, or one unpacked under .deps without root."""
    if given:
        if (given / DATA_FILE).is_file():
            return given
        sys.exit(f"demo: no {DATA_FILE} in {given}; give the folder of Fashion-MNIST's four .gz files")
    for attempt in ("look", "unpack and look"):
        if attempt != "look":
            subprocess.run([ROOT / "tools/debian_package.sh", PACKAGE], stdout=sys.stderr, check=False)
        for place in DATA_PLACES:
            if (place / DATA_FILE).is_file():
                return place
    sys.exit(f"demo: no Fashion-MNIST: install Debian's package {PACKAGE}, or give its four .gz files by --data DIR")


def find_tensorpager(given):
    beside = pathlib.Path(sys.executable).parent / "tensorpager"
    found = given or (beside if beside.is_file() else shutil.which("tensorpager"))
    if not found:
        sys.exit(f"demo: no tensorpager beside {sys.executable}; run `make build` and use .venv/bin/python")
    return str(found)


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line for every tenth step."""

    def __init__(self, name, steps):
        self.name, self.steps, self.begin = name, steps, time.monotonic()
        self.rewrites = sys.stdout.isatty()

    def show(self, run, end="\n"):
        value = f"loss {float.fromhex(run.losses[-1]):.4f}" if run.losses else "starting"
        line = f"{self.name}: step {len(run.losses)} of {self.steps}, {value}, {time.monotonic() - self.begin:.0f} s"
        print(f"\r{line}\x1b[K" if self.rewrites else line, end=end, flush=True)

    def update(self, run):
        if self.rewrites:
            self.show(run, end="")
        elif len(run.losses) % 10 == 1 and len(run.losses) < self.steps:
            self.show(run)


def execute(name, command, steps, log):
    """Runs the command to its end, reading its steps as they come; what it says on standard error goes to `log`."""
    run, progress = Run(), Progress(name, steps)
    progress.update(run)
    with open(log, "w") as errors:
        environment = {**os.environ, "TENSORPAGER_CURVE": "1"}
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        for line in child.stdout:
            steps_before = len(run.losses)
            run.read(line)
            if len(run.losses) > steps_before:
                progress.update(run)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    progress.show(run)
    run.resident_peak_bytes = usage.ru_maxrss * 1024
    if child.returncode:
        words = pathlib.Path(log).read_text().strip().splitlines() or ["nothing on standard error"]
        sys.exit(f"demo: {name} ended with {child.returncode}: {words[-1]}\n  {shlex.join(command)}\n  {log}")
    return run


def choose_budget(need, floor):
    """A quarter of the need, in whole pages; or what the largest op requires with a margin, where that is more."""
    quarter = int(need * SHARE) // 4096 * 4096
    lowest = int(floor * FLOOR_MARGIN)
    if quarter >= lowest:
        return quarter, f"{100 * SHARE:.0f} % of the need"
    return lowest, f"{FLOOR_MARGIN} x the floor of {size(floor)}, as a quarter of the need is less"


def table(plain, paged, stats, unbudgeted):
    need, budget = unbudgeted["need_bytes"], stats["budget_bytes"]
    equal = sum(a == b for a, b in zip(plain.losses, paged.losses, strict=False))
    moved = f"{size(stats['page_out_bytes'])} out, {size(stats['page_in_bytes'])} in"
    same = "equal" if plain.digest == paged.digest else "DIFFERENT"
    rows = [
        ("", "plain PyTorch", "under the budget"),
        ("need: peak of tensor bytes, nothing evicted", size(need), size(need)),
        ("budget", "none", f"{size(budget)} ({100 * budget / need:.1f} % of need)"),
        ("peak of tensor bytes in memory", size(need), f"{size(stats['peak_bytes'])}"),
        ("peak of the whole process (libraries too)", size(plain.resident_peak_bytes), size(paged.resident_peak_bytes)),
        ("training time", f"{plain.train_seconds:.1f} s", f"{paged.train_seconds:.1f} s"),
        ("waiting for transfers, in the whole run", "-", f"{stats['stall_seconds']:.1f} s"),
        ("paged out and in", "-", moved),
        ("losses equal to the last bit", "-", f"{equal} of {len(plain.losses)}"),
        ("parameters and buffers at the end (SHA-256)", plain.digest[:12], f"{paged.digest[:12]} {same}"),
        ("test accuracy", f"{100 * plain.accuracy:.2f} %", f"{100 * paged.accuracy:.2f} %"),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    lines.insert(1, "-" * len(lines[0]))
    lines.append(
        "All measured: the need by a run of a few steps with an unlimited budget, tensor bytes by Tensorpager's own count,"
    )
    lines.append("the whole process by the kernel (ru_maxrss), time around the training loop.")
    return "\n".join(lines)


def estimate(tensorpager, card, program):
    """What the program needs on a card, as `tensorpager estimate` says; None where this torch has no CUDA to run dry."""
    done = subprocess.run(
        [tensorpager, "estimate", "--json", "--machine", card, "--", *program], capture_output=True, text=True
    )
    if done.returncode != 0:
        print(f"demo: {card}: {done.stderr.strip().splitlines()[0]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def cards_table(estimates):
    """A row for each card, none of which is here: planned, by dry runs of torch's own CUDA code."""
    rows = [("on a card", "peak of tensors", "reserved by PyTorch", "fits", "at half the peak, simulated")]
    for card, found in estimates.items():
        half = found["half"]
        cost = f"{half['overhead']:+.1%} time" if half else "does not run"
        fits = "yes" if found["fits"] else "NO"
        rows.append((card, size(found["need_bytes"]), size(found["max_reserved_bytes"]), fits, cost))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def picture(unbudgeted, stats, caption):
    curves, ops = (unbudgeted["curve"], stats["curve"]), unbudgeted["ops"]
    share = 100 * stats["budget_bytes"] / unbudgeted["need_bytes"]
    return render(
        Picture(
            held=Curve(curves[0]["op"], curves[0]["live_bytes"]),
            resident=Curve(curves[1]["op"], curves[1]["charged_bytes"]),
            need=unbudgeted["need_bytes"],
            budget=stats["budget_bytes"],
            ops=ops,
            title=f"Where the bytes are: a ResNet trains in {share:.0f} % of its memory",
            subtitle=f"The first {MEASURED_STEPS} training steps on Fashion-MNIST. Grey above green: held by the program, paged out.",
            caption=caption,
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, help="folder of Fashion-MNIST's .gz files; default: found")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--threads", type=int, help="of PyTorch; default: its choice")
    parser.add_argument("--spill", help="folder for what is paged out; default: the temporary directory")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out/demo")
    parser.add_argument("--tensorpager", help="the command to run; default: the one beside this Python")
    args = parser.parse_args()
    if args.steps < MEASURED_STEPS:
        parser.error(f"--steps {args.steps}: the picture shows the first {MEASURED_STEPS}")
    tensorpager, data = find_tensorpager(args.tensorpager), find_data(args.data)
    args.out.mkdir(parents=True, exist_ok=True)

    def program(steps, *more):
        threads = ["--threads", str(args.threads)] if args.threads else []
        script = [sys.executable, str(EXAMPLES / "fashion_mnist.py"), "--data", str(data), "--steps", str(steps)]
        return [*script, *threads, *more]

    def paged(name, budget, steps, *more):
        stats = args.out / f"{name}.stats.json"
        stats.unlink(missing_ok=True)  # never an earlier run's numbers
        spill = ["--spill", args.spill] if args.spill else []
        options = ["--budget", str(budget), *spill, "--stats", str(stats)]
        run = execute(
            name, [tensorpager, "run", *options, "--", *program(steps, *more)], steps, args.out / f"{name}.log"
        )
        return run, json.loads(stats.read_text())

    _, unbudgeted = paged("measure", "unlimited", MEASURED_STEPS, "--test-images", "0")
    budget, reason = choose_budget(unbudgeted["need_bytes"], unbudgeted["floor_bytes"])
    need, floor = size(unbudgeted["need_bytes"]), size(unbudgeted["floor_bytes"])
    print(f"need {need}, floor {floor}; budget {size(budget)}: {reason}")
    plain = execute("plain", program(args.steps), args.steps, args.out / "plain.log")
    budgeted, stats = paged("budget", budget, args.steps)

    print("\n" + table(plain, budgeted, stats, unbudgeted) + "\n")
    command = f"tensorpager run --budget {budget / MIB:.0f}MiB -- python fashion_mnist.py --steps {args.steps}"
    svg, record = args.out / "bytes_over_time.svg", args.out / "demo.json"
    dry = program(8, "--device", "cuda", "--batch", str(CARD_BATCH), "--test-images", "0")
    estimates = {card: found for card in CARDS if (found := estimate(tensorpager, card, dry))}
    if estimates:
        print(f"the same network at batch {CARD_BATCH}, by dry runs without a GPU:\n{cards_table(estimates)}\n")
    svg.write_text(picture(unbudgeted, stats, command))
    runs = {"plain": asdict(plain), "budget": asdict(budgeted)}
    record.write_text(json.dumps({**runs, "stats": stats, "unbudgeted": unbudgeted}))
    print(f"where the bytes were: {svg}\nevery number:         {record}")

    faults = differences(plain, budgeted)
    if stats["peak_bytes"] > budget:
        faults.append(f"peak of {stats['peak_bytes']} bytes over the budget of {budget}")
    for fault in faults[:5]:
        print(f"demo: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
