"""Which program runs how, and what must be true of the result. Standard library only: pytest imports this without torch.

A case is written PROGRAM:KIND, where KIND is
  plain        without tensorpager: the bits that every other case must print
  unlimited    never short of memory: measures need and floor
  half         budget = half of the need, but at least 1.1 x the floor
  quarter      the same with a quarter
  fuzz-S       unlimited, and what is not pinned is paged out at random, from seed S
  fuzz-half-S  both
  brief        without tensorpager, fewer and smaller steps: what the seeds of brief-S must print
  brief-S      fuzz, with those; short enough for a hundred seeds of each program
  drop-S       as brief-S, and what replays can rebuild is dropped at random besides

PROGRAM:KIND+rebinding runs under that binding instead of the stable one.
"""

import re
from dataclasses import dataclass, field

PROGRAMS = (
    "resnet",
    "adamw_foreach",
    "adamw_fused",
    "lstm",
    "packed_lstm",
    "padded_batches",
    "lstm_cell",
    "seq2seq",
    "transformer_encoder",
    "layer_drop",
    "gpt",
    "unet",
    "gan",
    "dropout",
    "views",
    "accumulation",
    "checkpointing",
    "data_loader",
    "hugging_face_gpt2",
    "hugging_face_llama",
    "hugging_face_trainer",
)
# Blocks of these sizes are still large enough to be evicted.
BRIEF = {
    "resnet": "--steps 1 --batch 4",
    "adamw_foreach": "--steps 2 --batch 4",
    "adamw_fused": "--steps 2 --batch 256 --depth 3",
    "lstm": "--steps 1 --batch 8 --span 8 --layers 3",
    "packed_lstm": "--steps 1 --batch 32 --longest 6",
    "padded_batches": "--steps 1 --batch 4 --longest 32 --layers 2",
    "lstm_cell": "--steps 1 --length 8 --future 2",
    "seq2seq": "--steps 1 --length 5",
    "transformer_encoder": "--steps 1 --batch 8 --length 24 --layers 2",
    "layer_drop": "--steps 1 --batch 4 --frames 64 --layers 2",
    "gpt": "--steps 2 --batch 2 --layers 2",
    "unet": "--steps 1 --batch 2 --size 32",
    "gan": "--steps 1 --batch 16",
    "dropout": "--steps 2 --batch 16",
    "views": "--steps 1 --batch 16 --samples 2048",
    "accumulation": "--steps 1 --batch 6 --channels 96 --depth 3",
    "checkpointing": "--steps 1 --batch 6 --length 32 --blocks 3",
    "data_loader": "--steps 2 --batch 128",
    "hugging_face_gpt2": "--steps 1 --batch 2 --length 32 --layers 2 --tokens 2000",
    "hugging_face_llama": "--steps 1 --batch 2 --length 32 --layers 2",
    "hugging_face_trainer": "--steps 2 --batch 4 --length 16 --layers 2",
}
GRANULE = 4096
# Above the largest op: alignment and the reserve for small blocks; where blocks share one arena, also what is lost between them.
FLOOR_MARGIN = {"stable": 1.1, "rebinding": 1.4}
SHARES = {"half": 0.5, "quarter": 0.25}
MIB = 1 << 20
DROPPING = {"TENSORPAGER_FUZZ_DROPS": "8", "TENSORPAGER_FUZZ_EVICTIONS": "1"}  # tries an op
# More than so many are there of each if the fuzz drops.
LEAST_DROPS = 30
LEAST_REBUILDS = 20


@dataclass(frozen=True)
class Case:
    program: str
    kind: str
    seed: int | None = None
    binding: str = "stable"

    @staticmethod
    def parse(text):
        match = re.fullmatch(
            r"(\w+):(plain|unlimited|half|quarter|fuzz|fuzz-half|brief|drop)(?:-(\d+))?(\+rebinding)?", text
        )
        seeded = match and {"fuzz": (True,), "fuzz-half": (True,), "brief": (True, False), "drop": (True,)}.get(
            match[2], (False,)
        )
        if not match or match[1] not in PROGRAMS or (match[3] is not None) not in seeded:
            raise ValueError(
                f"case {text!r}: expected PROGRAM:KIND, for example {PROGRAMS[0]}:half or {PROGRAMS[0]}:fuzz-7"
            )
        return Case(match[1], match[2], int(match[3]) if match[3] else None, "rebinding" if match[4] else "stable")

    def __str__(self):
        seed = f"-{self.seed}" if self.seed is not None else ""
        return f"{self.program}:{self.kind}{seed}" + ("+rebinding" if self.binding == "rebinding" else "")

    @property
    def has_pager(self):
        return self.kind != "plain" and (self.kind != "brief" or self.seed is not None)

    @property
    def is_brief(self):
        return self.kind in ("brief", "drop")

    @property
    def arguments(self):
        return tuple(BRIEF[self.program].split()) if self.is_brief else ()

    @property
    def share(self):
        return SHARES.get(self.kind.removeprefix("fuzz-"))

    def prerequisite(self):
        """The case whose result this one needs, directly; each chain ends without a pager."""
        if not self.has_pager:
            return None
        return Case(self.program, "unlimited", binding=self.binding) if self.share else self.reference

    @property
    def reference(self):
        """The run without a pager whose output this one must have."""
        return Case(self.program, "brief" if self.is_brief else "plain")


@dataclass(frozen=True)
class Outcome:
    """What one forked run left behind."""

    exit_code: int  # minus the signal's number if a signal ended it
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    seconds: float = 0.0
    rss_growth: int = 0  # bytes by which the largest resident size exceeds that at the fork
    stats: dict | None = None  # tensorpager.stats() after the program; None without tensorpager
    samples: list = field(default_factory=list)


def brief_cases(kind, programs, seeds, binding="stable"):
    return [Case(program, kind, seed, binding) for program in programs for seed in range(1, seeds + 1)]


def standard_cases(programs, seeds, full, binding="stable"):
    kinds = ["unlimited", *SHARES]
    cases = [Case(program, kind, None, binding) for program in programs for kind in kinds]
    cases += [Case(program, "fuzz", seed, binding) for program in programs for seed in range(1, seeds + 1)]
    if full:
        cases += [Case(program, "fuzz-half", seed, binding) for program in programs for seed in range(1, seeds + 1)]
    return sorted(cases, key=lambda case: programs.index(case.program))


def budget_for(share, stats, binding="stable"):
    """Bytes: a share of the need that the unlimited run measured, never below what its largest op requires."""
    wanted = max(share * stats["need_bytes"], FLOOR_MARGIN[binding] * stats["floor_bytes"])
    return -(-int(wanted) // GRANULE) * GRANULE


def failures(case, budget, outcome, plain):
    """Everything that is wrong with this outcome, one line each; empty if the case passed."""
    if outcome.timed_out:
        return [f"no result after {outcome.seconds:.0f} s"]
    if outcome.exit_code:
        last = outcome.stderr.strip().splitlines()[-1:] or ["(nothing on standard error)"]
        return [f"exit code {outcome.exit_code}: {last[0]}"]
    if not case.has_pager:
        return [] if "digest " in outcome.stdout else ["the program printed no digest"]
    return [*_bits_differ(outcome.stdout, plain.stdout), *_stats_failures(case, budget, outcome.stats)]


def _bits_differ(stdout, plain):
    if stdout == plain:
        return []
    ours, theirs = stdout.splitlines(), plain.splitlines()
    for line, (a, b) in enumerate(zip(ours, theirs), start=1):
        if a != b:
            return [f"line {line} is {a!r}, without tensorpager {b!r}"]
    return [f"{len(ours)} lines, without tensorpager {len(theirs)}"]


def _stats_failures(case, budget, stats):
    found = []
    if stats["pins"]:
        found.append(f"{stats['pins']} pins are held after the last op")
    if stats["live_blocks"]:
        found.append(f"{stats['live_blocks']} blocks live although the program's tensors are dead")
    if case.kind == "unlimited" and not 0 < stats["floor_bytes"] <= stats["need_bytes"]:
        found.append(f"floor {stats['floor_bytes']} and need {stats['need_bytes']} bytes do not make sense")
    if case.seed is not None and not stats["fuzz_page_outs"]:
        found.append("not counted: the fuzz paged nothing out")
    if case.kind == "drop":
        found += _drop_failures(stats)
    if case.binding == "rebinding" and (stats["faults"] or stats["write_faults"]):
        found.append(f"{stats['faults']} accesses outside ops, {stats['write_faults']} writes that no op announced")
    if case.share:
        found += _budget_failures(budget, stats)
    return found


def _drop_failures(stats):
    found = []
    if stats["drops"] <= LEAST_DROPS or stats["rebuilds"] <= LEAST_REBUILDS:
        found.append(f"not counted: only {stats['drops']} drops and {stats['rebuilds']} rebuilds")
    if stats["failed_actions"]:
        found.append(f"{stats['failed_actions']} actions failed")
    return found


def _budget_failures(budget, stats):
    found = []
    if budget >= stats["need_bytes"]:
        found.append(
            f"not counted: budget {budget} is not below the need of {stats['need_bytes']} bytes (program badly sized)"
        )
    elif not stats["page_outs"]:
        found.append("not counted: nothing was paged out")
    if not stats["witness_peak_bytes"]:
        found.append("the witness saw no resident page of ours")
    for name in ("peak_bytes", "witness_peak_bytes"):
        if stats[name] > budget:
            found.append(f"{name} {stats[name]} exceeds the budget of {budget} by {stats[name] - budget}")
    if stats["over_budget_bytes"]:
        found.append(f"over_budget_bytes is {stats['over_budget_bytes']}")
    return found
