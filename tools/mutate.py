"""Breaks the code in one place at a time, and says which test notices.

    python tools/mutate.py [--folder DIR] [--check] [NAME ...]

Copies the checkout to DIR, else to a temporary folder; builds the tests of the folders that need no torch there, and
applies one mutation after the other, each undone before the next. Prints `NAME | caught by SUITE.TEST` or
`NAME | SURVIVED`, and exits 1 if one survives or a text is not found exactly once. A DIR is kept, so that the next call
builds less. With --check it only looks for the texts. NAME is the beginning of a mutation's name.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import mutations
import mutations_of_devices
import mutations_of_plans

MUTATIONS = mutations.MUTATIONS + mutations_of_devices.MUTATIONS + mutations_of_plans.MUTATIONS
SECONDS = 300  # for a suite: a mutation may wait for ever
ROOT = Path(__file__).resolve().parent.parent


def run(folder, *command, seconds=None):
    """Its exit code and output; None for a code where it took too long."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout + done.stderr


def copy_checkout(to):
    """What git knows and does not ignore, as it is; a file that is the same already keeps its time."""
    _, listed = run(ROOT, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, to / name
        if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if (ROOT / ".deps").exists() and not (to / ".deps").exists():
        (to / ".deps").symlink_to(ROOT / ".deps")


def build(folder, suites):
    code, output = run(folder, "cmake", "--preset", "std", "-DCMAKE_UNITY_BUILD=OFF")  # one source changes at a time
    if code == 0:
        targets = [f"{suite}_test" for suite in suites]
        code, output = run(folder, "cmake", "--build", "build/std", "--target", *targets)
    errors = [line for line in output.splitlines() if "rror:" in line] or output.splitlines()[-5:]
    return None if code == 0 else "\n".join(errors)


def failed_tests(folder, suite):
    """Of one suite; the test that was running where it crashed or hung."""
    code, output = run(folder / "build/std/test", f"./{suite}_test", seconds=SECONDS)
    failed = re.findall(r"^\[  FAILED  \] ([^ ,\n]+)(?:,.*)? \(\d+ ms\)$", output, re.MULTILINE)
    if code != 0 and " ran. (" not in output:
        started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        failed.append(f"{started[-1] if started else suite} ({'hangs' if code is None else 'crashes'})")
    return failed


def outcome_of(folder, mutation):
    error = build(folder, mutation.suites.split())
    if error is not None:
        return f"DOES NOT BUILD: {error}"
    for suite in mutation.suites.split():
        if failed := failed_tests(folder, suite):
            return f"caught by {failed[0]}" + (f" and {len(failed) - 1} more" if len(failed) > 1 else "")
    return "SURVIVED"


def is_caught(folder, mutation):
    path = folder / "src/tensorpager" / mutation.file
    text = path.read_text()
    if text.count(mutation.old) != 1:
        outcome = f"TEXT FOUND {text.count(mutation.old)} TIMES in {mutation.file}"
    else:
        path.write_text(text.replace(mutation.old, mutation.new))
        try:
            outcome = outcome_of(folder, mutation)
        finally:
            path.write_text(text)
    print(f"{mutation.name} | {outcome}", flush=True)
    return outcome.startswith("caught")


def is_found(mutation):
    times = (ROOT / "src/tensorpager" / mutation.file).read_text().count(mutation.old)
    if times != 1:
        print(f"{mutation.name} | TEXT FOUND {times} TIMES in {mutation.file}")
    return times == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--check", action="store_true", help="only look whether each text is found exactly once")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    chosen = [one for one in MUTATIONS if not options.names or one.name.startswith(tuple(options.names))]
    if not chosen:
        parser.error("no mutation has such a name")
    if options.check:
        return 0 if all([is_found(one) for one in chosen]) else 1
    folder = options.folder or Path(tempfile.mkdtemp(prefix="tensorpager-mutants-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copy_checkout(folder)
        suites = sorted({suite for one in chosen for suite in one.suites.split()})
        if (error := build(folder, suites)) is not None:
            sys.exit(f"The tests do not build without a mutation: {error}")
        for suite in suites:
            if failed := failed_tests(folder, suite):
                sys.exit(f"Without a mutation these fail: {', '.join(failed)}")
        return 0 if all([is_caught(folder, one) for one in chosen]) else 1
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
    sys.exit(main())
