"""What the emulated card and dry runs are worth, as tables. None of it was compared with a card.

.venv/bin/python bench/without_a_gpu.py [--tables dry memory plain bits large] [--only gpt resnet] [--seeds 8] [--json out/without_a_gpu.json]

dry     test programs on the CPU, traced for real and dry: ops, storages, need
memory  test programs with --device cuda, real numerics and dry: torch.cuda.max_memory_allocated and max_memory_reserved
plain   the largest batch that `tensorpager fit` says plain torch can run in 1 GiB, and what its allocator reserves there, against a
        run with real numerics
bits    test programs with --device cuda under schedules: digests against each other and against the CPU's, races
large   programs of test/programs/large, dry on the emulated card: need, reserved, ops, seconds, memory of the process
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

from traces import Trace, difference

ROOT = pathlib.Path(__file__).parent.parent
PROGRAMS = ROOT / "test" / "programs"
COMMAND = pathlib.Path(sys.executable).parent / "tensorpager"
CARD = "h100-80g"
sys.path.insert(0, str(PROGRAMS))
from cases import PROGRAMS as NAMES

LARGE = {
    "resnet50": "resnet50 --batch 144",
    "resnet50, workers, channels_last, autocast": "resnet50 --batch 144 --workers 2 --channels-last --precision float16",
    "resnet50 at 900": "resnet50 --batch 900",
    "resnet2000 at 32": "resnet50 --depth 2000 --batch 32",
    "gpt2": "gpt2 --batch 8",
    "gpt2, Trainer": "gpt2 --batch 8 --trainer",
    "llama8b": "llama8b --batch 1",
    "llama8b, Trainer": "llama8b --batch 1 --trainer",
    "lstm, packed, dropout": "lstm",
    "dcgan": "dcgan",
    "unet": "unet",
    "seq2seq": "seq2seq",
}


def run(*words, check: bool = True, **variables) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    done = subprocess.run(
        [str(word) for word in words], env=environment, capture_output=True, text=True, cwd=tempfile.gettempdir()
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr[-600:]}")
    return done


def program(name: str, *options) -> list:
    return ["--", sys.executable, PROGRAMS / f"{name}.py", *options]


def digest(done: subprocess.CompletedProcess) -> str:
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("tensorpager"))


def dry_against_real(name: str, folder: pathlib.Path) -> dict:
    paths = {way: folder / f"{name}.{way}" for way in ("real", "dry")}
    run(COMMAND, "trace", "--class", "step", "--smallest", 1, "-o", paths["real"], *program(name))
    run(COMMAND, "trace", "--dry", "-o", paths["dry"], *program(name), TENSORPAGER_DRY_LONGER="300")
    if not all(path.exists() and path.stat().st_size for path in paths.values()):
        return {"window": {way: path.exists() and path.stat().st_size > 0 for way, path in paths.items()}}
    return difference(*(Trace.read(path) for path in paths.values()))


def memory(name: str, folder: pathlib.Path) -> dict:
    found = {}
    for way in ("real", "dry"):
        stats = folder / f"{way}.json"
        verb = ["run"] if way == "real" else ["trace", "--dry", "--device", "cuda", "-o", folder / "dry.trace"]
        card = ["--emulate", CARD] if way == "real" else ["--machine", CARD]
        run(
            COMMAND,
            *verb,
            *card,
            *program(name, "--device", "cuda"),
            TENSORPAGER_STATS=str(stats),
            TENSORPAGER_DRY_LONGER="300",
        )
        emulation = json.loads(stats.read_text())["emulation"]
        found[way] = [emulation["max_allocated_bytes"], emulation["max_reserved_bytes"]]
    return found


def plain(name: str, folder: pathlib.Path) -> dict:
    machine, stats = folder / "small.machine", folder / "stats.json"
    run(COMMAND, "machine", CARD, "-o", machine)
    # CUDA itself takes 512 MiB.
    machine.write_text(re.sub(r"(?m)^(card .*)memory=\d+", rf"\1memory={3 << 29}", machine.read_text()))
    steps = ("--steps", 6)  # some programs have steps of different sizes
    words = program(name, "--device", "cuda", "--batch", "{batch}", *steps)
    begin = time.perf_counter()
    found = json.loads(run(COMMAND, "fit", "--json", "--machine", machine, *words).stdout)
    seconds = time.perf_counter() - begin
    words = program(name, "--device", "cuda", "--batch", found["plain"], *steps)
    run(COMMAND, "run", "--emulate", CARD, *words, TENSORPAGER_STATS=str(stats))
    reserved = json.loads(stats.read_text())["emulation"]["max_reserved_bytes"]
    return {"batch": found["plain"], "predicted": found["plain_reserved_bytes"], "confirmed": found["plain_confirmed"],
            "reserved": reserved, "seconds": seconds}  # fmt: skip


def bits(name: str, folder: pathlib.Path, seeds: int) -> dict:
    plain = digest(run(sys.executable, PROGRAMS / f"{name}.py"))
    printed, races = {}, 0
    for schedule in ["now", "threads", *map(str, range(1, seeds + 1))]:
        stats = folder / "stats.json"
        words = [COMMAND, "run", "--emulate", CARD, "--emulate-seed", schedule, *program(name, "--device", "cuda")]
        printed[schedule] = digest(run(*words, TENSORPAGER_STATS=str(stats)))
        races += json.loads(stats.read_text())["emulation"]["races"]
    differing = [schedule for schedule, text in printed.items() if text != printed["now"]]
    return {"schedules": len(printed), "differing": differing, "races": races, "as_on_cpu": printed["now"] == plain}


def large(command: str, folder: pathlib.Path) -> dict:
    name, *options = command.split()
    begin = time.perf_counter()
    done = run(
        COMMAND,
        "trace",
        "--dry",
        "--device",
        "cuda",
        "--machine",
        CARD,
        "-o",
        folder / "large.trace",
        *program(f"large/{name}", *options, "--steps", 40),
        TENSORPAGER_STATS=str(folder / "stats.json"),
    )
    seconds = time.perf_counter() - begin
    said = re.search(r"windows? of (\d+) ops \(need ([^,]*), floor ([^)]*)\) \(written\)", done.stderr)
    if said is None:
        raise RuntimeError(f"{command}: {done.stderr[-600:]}")
    emulation = json.loads((folder / "stats.json").read_text())["emulation"]
    return {"ops": int(said[1]), "need": said[2], "floor": said[3], "max_allocated_bytes": emulation["max_allocated_bytes"],
            "max_reserved_bytes": emulation["max_reserved_bytes"], "seconds": seconds,
            "largest_process_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}  # fmt: skip


def row_of(table: str, name: str, found: dict) -> str:
    if "error" in found:
        return f"| {name} | {found['error'][:150]} |"
    if table == "dry" and "window" in found:
        return f"| {name} | no window: {found['window']} |"
    if table == "dry":
        real, dry = found["need_bytes"]
        bare_real, bare_dry = found["without_temporaries_bytes"]
        return (f"| {name} | {found['ops'][0]} / {found['ops'][1]} | {'same' if found['same_ops'] else 'DIFFER'} | "
                f"{'same' if found['same_storages'] else 'DIFFER'} | {'same' if found['same_steps'] else 'DIFFER'} | {real} | "
                f"{dry - real:+} ({(dry - real) / real:+.2%}) | {bare_dry - bare_real:+} | {'same' if found['same_work'] else 'differ'} |")  # fmt: skip
    if table == "memory":
        (allocated, reserved), (dry_allocated, dry_reserved) = found["real"], found["dry"]
        return f"| {name} | {allocated} | {dry_allocated - allocated:+} | {reserved} | {dry_reserved - reserved:+} |"
    if table == "plain":
        predicted, reserved = found["predicted"], found["reserved"]
        return (f"| {name} | {found['batch']} | {'a dry run' if found['confirmed'] else 'the model'} | {predicted} | "
                f"{reserved - predicted:+} ({reserved / predicted - 1:+.2%}) | {found['seconds']:.0f} |")  # fmt: skip
    if table == "bits":
        return (f"| {name} | {found['schedules']} | {', '.join(found['differing']) or 'none'} | {found['races']} | "
                f"{'equal' if found['as_on_cpu'] else 'differs'} |")  # fmt: skip
    return (f"| {name} | {found['need']} | {found['max_allocated_bytes'] / 2**30:.2f} | {found['max_reserved_bytes'] / 2**30:.2f} | "
            f"{found['ops']} | {found['seconds']:.1f} | {found['largest_process_bytes'] / 2**30:.2f} |")  # fmt: skip


HEADS = {
    "dry": "| program | ops real / dry | ops | storages | step | need, bytes | dry - real | without temporaries | flops, moved |",
    "memory": "| program | allocated, bytes | dry - real | reserved, bytes | dry - real |",
    "plain": "| program | batch | by | reserved, bytes | real - predicted | seconds of `fit` |",
    "bits": "| program | schedules | differing from `now` | races | CPU's bits |",
    "large": "| program | need | allocated, GiB | reserved, GiB | ops | seconds | largest RSS so far, GiB |",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(HEADS), choices=list(HEADS))
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    ways = {"dry": dry_against_real, "memory": memory, "plain": plain, "bits": lambda name, folder: bits(name, folder, args.seeds),
            "large": lambda name, folder: large(LARGE[name], folder)}  # fmt: skip
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for table in args.tables:
            print(HEADS[table] + "\n|" + "---|" * (HEADS[table].count("|") - 1))
            for name in LARGE if table == "large" else NAMES:
                if args.only and name not in args.only:
                    continue
                try:
                    found = ways[table](name, pathlib.Path(folder))
                except (RuntimeError, OSError, KeyError) as error:
                    found = {"error": " ".join(str(error).split())[-300:]}
                results.setdefault(table, {})[name] = found
                print(row_of(table, name, found), flush=True)
            print()
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
