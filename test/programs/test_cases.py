"""The checks of cases.py can fail: each one, on an outcome that is wrong in one way."""

from dataclasses import replace
from pathlib import Path

import pytest
from cases import PROGRAMS, Case, Outcome, brief_cases, budget_for, failures, standard_cases

OUTPUT = "step 0 loss 0x1.8p+1\ndigest 00ff\n"
STATS = {
    "need_bytes": 100 << 12,
    "floor_bytes": 10 << 12,
    "peak_bytes": 50 << 12,
    "witness_peak_bytes": 50 << 12,
    "over_budget_bytes": 0,
    "page_outs": 7,
    "fuzz_page_outs": 3,
    "pins": 0,
    "faults": 0,
    "write_faults": 0,
    "live_blocks": 0,
    "drops": 50,
    "rebuilds": 40,
    "failed_actions": 0,
}
BUDGET = 50 << 12
PLAIN = Outcome(exit_code=0, stdout=OUTPUT)
PAGED = Outcome(exit_code=0, stdout=OUTPUT, stats=STATS)
HALF = Case("gpt", "half")
FUZZ = Case("gpt", "fuzz", 1)
DROP = Case("gpt", "drop", 1)


def test_accepts_equal_bits_within_the_budget():
    assert failures(HALF, BUDGET, PAGED, PLAIN) == []
    assert failures(FUZZ, "unlimited", PAGED, PLAIN) == []
    assert failures(DROP, "unlimited", PAGED, PLAIN) == []


@pytest.mark.parametrize(
    ("case", "change", "reason"),
    [
        (HALF, {"peak_bytes": BUDGET + 1}, "peak_bytes"),
        (HALF, {"witness_peak_bytes": BUDGET + 1}, "witness_peak_bytes"),
        (HALF, {"witness_peak_bytes": 0}, "witness saw no"),
        (HALF, {"over_budget_bytes": 4096}, "over_budget_bytes"),
        (HALF, {"page_outs": 0}, "not counted: nothing"),
        (HALF, {"need_bytes": BUDGET}, "badly sized"),
        (HALF, {"pins": 1}, "pins are held"),
        (FUZZ, {"live_blocks": 1}, "1 blocks live"),
        (FUZZ, {"fuzz_page_outs": 0}, "not counted: the fuzz"),
        (DROP, {"drops": 0}, "not counted: only 0 drops"),
        (DROP, {"rebuilds": 0}, "0 rebuilds"),
        (DROP, {"failed_actions": 1}, "1 actions failed"),
        (Case("gpt", "unlimited"), {"floor_bytes": 0}, "do not make sense"),
        (replace(FUZZ, binding="rebinding"), {"write_faults": 1}, "no op announced"),
        (replace(HALF, binding="rebinding"), {"faults": 1}, "outside ops"),
    ],
)
def test_rejects_statistics(case, change, reason):
    found = failures(case, BUDGET, replace(PAGED, stats=STATS | change), PLAIN)
    assert len(found) == 1 and reason in found[0], found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stdout": OUTPUT.replace("1.8p", "1.9p")}, "line 1 is 'step 0 loss 0x1.9p+1'"),
        ({"stdout": OUTPUT.splitlines()[0]}, "1 lines, without tensorpager 2"),
        ({"exit_code": -11}, "exit code -11"),
        ({"exit_code": 1, "stderr": "Traceback\nValueError: why\n"}, "ValueError: why"),
        ({"timed_out": True, "exit_code": -9}, "no result"),
    ],
)
def test_rejects_outcomes(change, reason):
    found = failures(HALF, BUDGET, replace(PAGED, **change), PLAIN)
    assert len(found) == 1 and reason in found[0], found


def test_budget_is_a_share_of_the_need_but_above_the_floor():
    assert budget_for(0.5, STATS) == 50 << 12
    assert budget_for(0.25, STATS | {"floor_bytes": 40 << 12}) == 44 << 12
    assert budget_for(0.25, STATS | {"need_bytes": 4 * 4096 * 30 + 4}) == 31 << 12


def test_cases_survive_being_written_and_parsed():
    brief = brief_cases("brief", PROGRAMS, seeds=2) + brief_cases("drop", PROGRAMS, seeds=2)
    for case in standard_cases(PROGRAMS, seeds=2, full=True) + brief:
        assert Case.parse(str(case)) == case
    for text in ("gpt", "gpt:third", "gpt:fuzz", "gpt:drop", "gpt:half-1", "nothing:half"):
        with pytest.raises(ValueError, match="expected PROGRAM:KIND"):
            Case.parse(text)


def test_programs_do_not_know_tensorpager():
    for program in PROGRAMS:
        assert "tensorpager" not in (Path(__file__).parent / f"{program}.py").read_text().lower()
