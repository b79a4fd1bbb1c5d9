"""Once every size of a training step has a range of its own, memory is given out without asking the kernel."""

import pytest
from training import make_model, train

import tensorpager

pytestmark = pytest.mark.forked


def test_a_steady_state_makes_no_system_call_for_memory(spill):
    with tensorpager.enable(budget="unlimited", spill=spill):
        model = make_model()
        train(model, steps=4)
        before = tensorpager.stats()
        train(model, steps=10)
        after = tensorpager.stats()
    assert after["ops"] > before["ops"] + 1000
    assert after["system_calls"] == before["system_calls"]
