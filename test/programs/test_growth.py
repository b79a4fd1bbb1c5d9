"""Paging for many steps accumulates nothing: no blocks, records, spill space, mappings or resident memory."""

import pytest

STEPS, EVERY = 240, 30  # a multiple of the program's three batch sizes: each sample is taken at the same place
WARM_UP = 2  # samples while pools and the optimizer's state still fill
RSS_MARGIN = 2 << 20  # bytes of noise from malloc and Python; a leak of 16 KiB a step would be 2.8 MiB

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


@pytest.mark.parametrize("name", ["live_blocks", "records", "spill_bytes", "mappings"])
def test_does_not_grow(samples, name):
    values = [sample[name] for sample in samples]
    assert values[0] > 0, f"{name} was not measured"
    assert max(values) == values[0], values


def test_resident_size_does_not_grow(samples):
    values = [sample["rss"] for sample in samples]
    assert max(values) <= values[0] + RSS_MARGIN, values


def test_holds_no_pins_between_steps(samples):
    assert [sample["pins"] for sample in samples] == [0] * len(samples)
