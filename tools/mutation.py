"""What a mutation of mutate.py is."""

from typing import NamedTuple


class Mutation(NamedTuple):
    name: str
    file: str  # below src/tensorpager
    old: str
    new: str
    suites: str  # by folder, in the order in which they are run
