"""A window of a trace as the bound sees it: its ops, live bytes, and the stretches in which a storage is idle."""

from dataclasses import dataclass

from bound.rates import Machine
from traces import LISTS, Trace

MIN_PAGED = 16 * 1024


@dataclass
class Stretch:
    """Between two uses of a storage; one over the window's end is two."""

    storage: int
    size: int
    last_write: int  # op; -1: below from the beginning
    after: int  # idle from the op after this one
    before: int  # idle until the op before this one
    returns: int  # op that needs it; the number of ops: not in this window
    written_before: int  # op of the window before, if it was not written in this one yet; -1: never
    returns_later: int  # op of the next window that needs it, if none of this one does
    rebuilding: float | None = None  # seconds of the ops that had written it; None: it cannot be rebuilt
    with_arguments: float = 0.0  # and its share of those that rebuild dead arguments


class Window:
    """`live`: bytes of large storages by op. `room`: what a budget leaves for these."""

    def __init__(self, text: str, machine: Machine):
        trace = Trace.parse(text)
        self.storages = [{"bytes": size, "entry": entry} for size, entry in trace.storages]
        self.ops = [
            {
                **{kind: getattr(op, kind) for kind in LISTS},
                "purity": op.purity,
                "temporary": op.temporary,
                "seconds": machine.seconds(op.name, op.flops, op.moved, op.precision),
            }
            for op in trace.ops
        ]
        self.sizes = [trace.charged(storage["bytes"]) for storage in self.storages]
        self.live, self._most_small = [], 0
        now = [size for size, storage in zip(self.sizes, self.storages) if storage["entry"]]
        small, large = sum(filter(_is_small, now)), sum(size for size in now if not _is_small(size))
        self._most_small = small
        for op in self.ops:
            born, dead = ([self.sizes[number] for number in op[kind]] for kind in ("births", "deaths"))
            small += sum(filter(_is_small, born))
            large += sum(size for size in born if not _is_small(size))
            self._most_small = max(self._most_small, small)
            temporary = trace.charged(op["temporary"])
            self.live.append(large + (0 if _is_small(temporary) else temporary))
            small -= sum(filter(_is_small, dead))
            large -= sum(size for size in dead if not _is_small(size))

    def room(self, budget: int) -> int:
        return budget - self._most_small

    def seconds(self) -> float:
        return sum(op["seconds"] for op in self.ops)

    def idle(self) -> list[Stretch]:
        return [
            stretch
            for number, size in enumerate(self.sizes)
            if not _is_small(size)
            for stretch in _stretches(number, size, self.storages[number]["entry"], self.ops)
        ]


def _is_small(size: int) -> bool:
    return size < MIN_PAGED


def _stretches(number: int, size: int, entry: bool, ops: list[dict]) -> list[Stretch]:
    """Idle stretches of one storage, by op index."""
    count = len(ops)
    writers = [i for i, op in enumerate(ops) if number in op["writes"] or number in op["births"]]
    users = [i for i, op in enumerate(ops) if any(number in op[kind] for kind in ("reads", "writes", "births"))]
    around = (writers[-1] if writers else -1, users[0] if users else count)
    found = []
    use, write, alive = (-1, -1, True) if entry else (None, None, False)
    for i, op in enumerate(ops):
        written = number in op["writes"] or number in op["births"]
        if number in op["births"]:
            alive = True
            use = None
        if written or number in op["reads"]:
            if use is not None and i > use + 1:
                found.append(Stretch(number, size, write, use, i, i, *around))
            use = i
            write = i if written else write
        if number in op["deaths"]:
            if i > use:
                found.append(Stretch(number, size, write, use, i + 1, count, around[0], count))  # it need not return
            alive = False
    if alive and use is not None and use < count - 1:
        found.append(Stretch(number, size, write, use, count, count, *around))
    return found
