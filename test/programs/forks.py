"""Runs programs in forks of one process that has imported torch once, which costs seconds, and has run no op yet.

The parent stays without threads, because a forked child has only the thread that forked: OpenMP's would be missing.
"""

import os

for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"  # read when torch and numpy are imported, below

import gc
import json
import runpy
import select
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # every optimizer imports it when it is made: here it costs a second once, not in each child
from cases import DROPPING, Outcome
from torch.optim.optimizer import register_optimizer_step_post_hook

FOLDER = Path(__file__).parent
WITNESS_OPS = "200"  # ops between two looks at smaps
SAMPLED = ("live_blocks", "records", "spill_bytes", "mappings", "page_outs", "pins")


@dataclass(frozen=True)
class Run:
    program: str
    arguments: tuple[str, ...] = ()
    budget: int | str | None = None  # None: without tensorpager
    seed: int | None = None
    binding: str = "stable"
    drops: bool = False  # what replays can rebuild is dropped at random besides
    sample_every: int = 0  # optimizer steps between two entries of Outcome.samples; 0: none


class Forks:
    """At most `limit` children at once. Each has a folder of its own under `folder`, for its output and its spill file."""

    def __init__(self, folder, limit=2, timeout=300.0, spill="file"):
        self._folder, self._limit, self._timeout, self._spill = Path(folder), limit, timeout, spill
        self._running = {}  # pidfd -> (tag, pid, start, folder)
        self._started = 0
        torch.set_num_threads(1)
        torch.set_num_interop_threads(1)

    @staticmethod
    def preload(programs):
        """Imports what these need and takes seconds; the forks find it loaded."""
        if any(program.startswith("hugging_face_") for program in programs):
            from transformers import (  # noqa: F401
                BertForSequenceClassification,
                GPT2LMHeadModel,
                LlamaForCausalLM,
                Trainer,
            )

    def has_room(self):
        return len(self._running) < self._limit

    def is_idle(self):
        return not self._running

    def start(self, tag, run):
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            raise RuntimeError(f"the parent has {threads} threads; a fork would lose all but one")
        self._started += 1
        gc.freeze()  # a fork's collections would go over, and copy, every page that holds an object of ours
        folder = self._folder / str(self._started)
        (folder / "spill").mkdir(parents=True)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _child(run, folder, str(folder / "spill") if self._spill == "file" else self._spill)
        self._running[os.pidfd_open(pid)] = (tag, pid, time.monotonic(), folder)

    def wait(self):
        """Blocks until one child has ended or has been killed for its timeout. Returns its tag and its outcome."""
        oldest = min(start for _, _, start, _ in self._running.values())
        poll = select.poll()
        for pidfd in self._running:
            poll.register(pidfd, select.POLLIN)
        ended = poll.poll(max(0.0, oldest + self._timeout - time.monotonic()) * 1000)
        timed_out = not ended
        pidfd = ended[0][0] if ended else next(fd for fd, entry in self._running.items() if entry[2] == oldest)
        tag, pid, start, folder = self._running.pop(pidfd)
        if timed_out:
            os.kill(pid, signal.SIGKILL)
        exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(pidfd)
        outcome = _read_outcome(folder, exit_code, timed_out, time.monotonic() - start)
        shutil.rmtree(folder)
        return tag, outcome


def _read_outcome(folder, exit_code, timed_out, seconds):
    written = folder / "result.json"
    result = json.loads(written.read_text()) if written.exists() else {}
    out, err = ((folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    return Outcome(exit_code, out, err, timed_out, **({"seconds": seconds} | result))


def _child(run, folder, spill):
    """Never returns. Ends by os._exit, so that nothing of the parent's stack is unwound here."""
    exit_code = 1
    try:
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), descriptor)
        exit_code = _run_program(run, folder, spill)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _run_program(run, folder, spill):
    start, resident = time.monotonic(), _status_bytes("VmRSS")
    samples, stats = [], None
    if run.budget is not None:
        import tensorpager

        if run.budget != "unlimited":
            os.environ["TENSORPAGER_WITNESS"] = WITNESS_OPS
        if run.drops:
            os.environ.update(DROPPING)
        tensorpager.enable(budget=run.budget, spill=spill, fuzz=run.seed, binding=run.binding)
    if run.sample_every:
        _sample_after_steps(run.sample_every, samples)

    path = str(FOLDER / f"{run.program}.py")
    sys.argv = [path, *run.arguments]
    exit_code = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        exit_code = end.code if isinstance(end.code, int) else int(end.code is not None)
    gc.collect()  # the program's tensors are dead: what is pinned now is a leak

    if run.budget is not None:
        stats = tensorpager.stats()
    result = {
        "seconds": time.monotonic() - start,
        "rss_growth": _status_bytes("VmHWM") - resident,
        "stats": stats,
        "samples": samples,
    }
    (folder / "result.json").write_text(json.dumps(result))
    return exit_code


def _sample_after_steps(every, samples):
    steps = 0

    def sample(*_):
        nonlocal steps
        steps += 1
        if steps % every == 0:
            import tensorpager

            stats = tensorpager.stats()
            samples.append({name: stats[name] for name in SAMPLED} | {"step": steps, "rss": _status_bytes("VmRSS")})

    register_optimizer_step_post_hook(sample)


def _status_bytes(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")
