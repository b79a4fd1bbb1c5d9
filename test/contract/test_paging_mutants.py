"""The emulated card catches the mistakes of a pager. The one of test/emulation is right: it gets the bits of the program without it, in every
schedule, and no race. With any one of its waits left out, the digest differs, or a race is found, or the process fails: in every schedule.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from emulated import EMULATION, FAKE_CARD
from launch import HERE, emulated_python, run_command

MINI_PAGER = HERE.parents[1] / "build" / "cpp" / "libtensorpager_mini_pager.so"
pytestmark = pytest.mark.skipif(
    not (FAKE_CARD.exists() and EMULATION.exists() and MINI_PAGER.exists()),
    reason="built for a torch without CUDA: there is no emulated card",
)
SCHEDULES = ["threads", "late", "1", "2", "3", "4"]
# Bytes that the program has to do with: a quarter to four fifths of what it needs.
BUDGETS = {"gpt": 12 << 20, "cnn": 3_500_000, "lstm": 2_300_000, "two_streams": 2_800_000}
# A wait that is left out, by its name in test/emulation/waits.cpp: the programs that show it. Where it is not in all of them, other waits of
# the program happen to cover it, or there is one stream only.
MUTANTS = {
    "reuse": ["two_streams", "gpt", "cnn", "lstm"],
    "compute-before-page-out": ["two_streams", "gpt", "cnn", "lstm"],
    "page-out-before-reuse": ["two_streams", "gpt", "cnn", "lstm"],
    "page-out-before-page-in": ["gpt", "cnn"],
    "page-in-before-compute": ["two_streams", "gpt", "cnn", "lstm"],
    "uses-on-other-streams": ["two_streams"],
    "fence-on-stream-of-use": ["two_streams"],
    "both-fences-of-merge": ["two_streams"],
    "page-in-before-each-stream": ["two_streams"],
    "dirty-after-write": ["two_streams"],
}
QUICK_SCHEDULES = ["threads", "1"]
# One wait of each kind: for the place, for the bytes on either link, for other streams, and for what a write changes.
QUICK = ["reuse", "compute-before-page-out", "page-in-before-compute", "uses-on-other-streams", "dirty-after-write"]


@dataclass(frozen=True)
class Ended:
    returncode: int
    stderr: str
    found: dict  # what the program printed
    races: int
    first_race: str

    def caught_by(self, right):
        """How the run shows that something is wrong; empty if it does not."""
        ways = {
            "failure": self.returncode != 0,
            "races": self.races > 0,
            "digest": self.returncode == 0 and self.found["digest"] != right.found["digest"],
        }
        return [way for way, seen in ways.items() if seen]


def run(folder, program, schedule, budget=0, skip=""):
    stats = folder / "stats.json"
    stats.unlink(missing_ok=True)
    options = ["--emulate", "h100-80g", "--emulate-seed", schedule, "--stats", stats]
    done = run_command(
        "run",
        *options,
        "--",
        *emulated_python(),
        HERE / "paging_programs.py",
        program,
        budget,
        # As a rule cuBLAS takes 32 MiB of a GPU of this kind for each stream, more than these programs have.
        variables={"CUBLAS_WORKSPACE_CONFIG": ":16:8", "MINI_PAGER_SKIP": skip},
    )
    lines = done.stdout.splitlines()
    emulation = json.loads(stats.read_text())["emulation"] if stats.exists() else {"races": 0, "first_race": ""}
    return Ended(
        done.returncode,
        done.stderr,
        json.loads(lines[-1]) if done.returncode == 0 else {},
        emulation["races"],
        emulation["first_race"],
    )


def run_all(folder, runs):
    """Two at a time: of each run what `run` takes."""
    folders = [folder / str(i) for i in range(len(runs))]
    for one in folders:
        one.mkdir()
    emulated_python()  # before there are threads
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda one, arguments: run(one, *arguments), folders, runs))


@pytest.fixture(scope="module")
def unpaged(tmp_path_factory):
    """Program -> its run without a pager, with kernels that run at once."""
    ended = dict(zip(BUDGETS, run_all(tmp_path_factory.mktemp("unpaged"), [(program, "now") for program in BUDGETS])))
    for one in ended.values():
        assert (one.returncode, one.races) == (0, 0), one.stderr
    return ended


def check_right(ended, program, right):
    assert ended.returncode == 0, ended.stderr
    assert (ended.races, ended.first_race) == (0, "")
    assert ended.found["digest"] == right.found["digest"]
    assert ended.found["allocator"] == "mini pager" and ended.found["page_ins"] > 0
    assert ended.found["max_allocated"] <= BUDGETS[program] < right.found["max_allocated"]


def check_caught(ended, right):
    # A name that is no wait's would make every run fail, which looks like a mistake that was caught.
    assert "MINI_PAGER_SKIP" not in ended.stderr, ended.stderr
    assert ended.caught_by(right), "the digest is right, and there is no race"


def test_a_pager_that_waits_for_all_it_must_changes_nothing(tmp_path, unpaged):
    runs = run_all(tmp_path, [(program, "1", budget) for program, budget in BUDGETS.items()])
    for program, ended in zip(BUDGETS, runs):
        check_right(ended, program, unpaged[program])


@pytest.mark.parametrize("skip", QUICK)
def test_a_wait_left_out_is_caught(tmp_path, unpaged, skip):
    program = MUTANTS[skip][0]
    for ended in run_all(tmp_path, [(program, schedule, BUDGETS[program], skip) for schedule in QUICK_SCHEDULES]):
        check_caught(ended, unpaged[program])


@pytest.mark.slow
@pytest.mark.parametrize("program", BUDGETS)
def test_every_schedule_gives_the_bits_of_the_program_without_a_pager(tmp_path, unpaged, program):
    for ended in run_all(tmp_path, [(program, schedule, BUDGETS[program]) for schedule in [*SCHEDULES, "now"]]):
        check_right(ended, program, unpaged[program])


@pytest.mark.slow
@pytest.mark.parametrize("skip, program", [(skip, program) for skip in MUTANTS for program in MUTANTS[skip]])
def test_a_wait_left_out_is_caught_in_every_schedule(tmp_path, unpaged, skip, program):
    for ended in run_all(tmp_path, [(program, schedule, BUDGETS[program], skip) for schedule in SCHEDULES]):
        check_caught(ended, unpaged[program])
