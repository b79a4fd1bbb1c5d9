"""Marks that several files of tests have."""

import pytest
from emulated import EMULATION, FAKE_CARD

needs_emulated_card = pytest.mark.skipif(
    not (FAKE_CARD.exists() and EMULATION.exists()), reason="built for a torch without CUDA: there is no emulated card"
)


def slow(*case):
    """A case of `parametrize` that only `make test-full` runs."""
    return pytest.param(*case, marks=pytest.mark.slow)
