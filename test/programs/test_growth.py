"""Paging for many steps accumulates nothing: no blocks, records, spill space, mappings or resident memory."""

import pytest

STEPS, EVERY = 240, 30  # a multiple of the program's three batch sizes: each sample is taken at the same place
WARM_UP = 2  # samples while pools and the optimizer's state still fill
MARGINS = {
    "live_blocks": 0,
    "records": 0,
    "spill_bytes": 0,
    # Of the whole process: neighbours merge and split, and what is being moved counts twice. From 931 to 943 in a run of
    # 1,440 steps, from 939 to 954 in one of 240; a leak of one a step would be 150.
    "mappings": 32,
    "rss": 2 << 20,  # bytes of noise from malloc and Python; a leak of 16 KiB a step would be 2.3 MiB
}

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def samples(sampled_run):
    outcome = sampled_run("long_run", STEPS, EVERY)
    assert outcome["exit_code"] == 0, outcome["stderr"]
    assert len(outcome["samples"]) == STEPS // EVERY
    return outcome["samples"][WARM_UP:]


def test_pages_out_between_all_samples(samples):
    page_outs = [sample["page_outs"] for sample in samples]
    assert all(later > earlier for earlier, later in zip(page_outs, page_outs[1:])), page_outs


@pytest.mark.parametrize("name", MARGINS)
def test_does_not_grow(samples, name):
    values = [sample[name] for sample in samples]
    assert values[0] > 0, f"{name} was not measured"
    assert max(values) <= values[0] + MARGINS[name], values


def test_holds_no_pins_between_steps(samples):
    assert [sample["pins"] for sample in samples] == [0] * len(samples)
