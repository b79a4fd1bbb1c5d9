"""Paging for many steps accumulates nothing: no blocks, records, spill space, mappings or resident memory."""

from statistics import median

import pytest

STEPS, EVERY = 240, 6  # a multiple of the program's three batch sizes: each sample is taken at the same place
WARM_UP = 10  # samples while pools and the optimizer's state still fill
MARGINS = {
    "live_blocks": 0,
    "records": 0,
    "spill_bytes": 0,
    "rss": 2 << 20,  # bytes of noise from malloc and Python; a leak of 16 KiB a step would be 2.8 MiB
}
# Of the whole process. What is being moved when they are counted makes it up to seven more or fewer, so no single sample
# tells, but medians do, to two. A leak of one a step would be 90.
MAPPINGS_MARGIN = 8

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


def test_leaves_no_mappings_behind(samples):
    values = [sample["mappings"] for sample in samples]
    assert min(values) > 0, "mappings were not measured"
    earlier, later = values[: len(values) // 2], values[len(values) // 2 :]
    assert median(later) <= median(earlier) + MAPPINGS_MARGIN, values


def test_holds_no_pins_between_steps(samples):
    assert [sample["pins"] for sample in samples] == [0] * len(samples)
