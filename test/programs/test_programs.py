"""Every program, under a budget and under fuzz, prints the bits that it prints without tensorpager."""

import os

import pytest
from cases import PROGRAMS, standard_cases

SEEDS = int(os.environ.get("TENSORPAGER_TEST_SEEDS", "2"))
# Each op pages something out: these are fuzzed in the full run only.
MANY_OPS = {
    "packed_lstm",
    "lstm_cell",
    "seq2seq",
    "accumulation",
    "checkpointing",
    "hugging_face_gpt2",
    "hugging_face_llama",
    "hugging_face_trainer",
}


def parameter(case):
    if case.kind == "fuzz":
        slow = case.binding != "stable" or case.seed > 1 or case.program in MANY_OPS
    else:
        slow = case.kind != ("quarter" if case.binding == "stable" else "half")
    return pytest.param(str(case), marks=[pytest.mark.slow] if slow else [])


@pytest.mark.e2e
@pytest.mark.parametrize(
    "case",
    [
        parameter(case)
        for binding in ("stable", "rebinding")
        for case in standard_cases(PROGRAMS, SEEDS, full=True, binding=binding)
    ],
)
def test_prints_the_same_bits_within_its_budget(case, selected_cases):
    failures = selected_cases.failures(case)
    assert not failures, "\n".join(failures)
