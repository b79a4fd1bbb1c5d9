"""A lower bound on the time of a window, as a linear program: any share of any storage may be below between two uses.

Independent of the planners and of their own bound. Variables: the start of each op, and of each stretch between two uses
of a storage the share that is below. Bytes are charged until their page-out is done, and from their page-in's begin;
transfers have no latency. Op order is fixed, nothing is recomputed, and nothing needs an offset.
"""

from dataclasses import dataclass

import highspy

MIN_PAGED = 16 * 1024
# The machine of the program: of test_lower_bound.py's machine file too.
ARITHMETIC = 4.2e13
MEMORY = 921.6e9
LAUNCH = 3e-6
LINK = 24e9


@dataclass
class Stretch:
    size: int
    last_write: int  # op; -1: below from the beginning
    after: int  # idle from the op after this one
    before: int  # idle until the op before this one
    returns: int  # op that needs it; the number of ops: not in this window


def parse(text: str) -> tuple[int, list[dict], list[dict]]:
    granule, storages, ops = 4096, [], []
    for line in text.splitlines()[1:]:
        kind, *words = line.split()
        fields = dict(word.partition("=")[::2] for word in words)
        ids = {
            key: [int(i) for i in fields.get(key, "").split(",") if i]
            for key in ("reads", "writes", "births", "deaths")
        }
        if kind == "granule":
            granule = int(words[0])
        elif kind == "storage":
            storages.append({"bytes": int(fields["bytes"]), "entry": "entry" in words})
        elif kind == "op":
            flops, moved = int(fields.get("flops", 0)), int(fields.get("moved", 0))
            seconds = LAUNCH + max(flops / ARITHMETIC, moved / MEMORY) if flops or moved else 0.0
            ops.append({**ids, "temporary": int(fields.get("temporary", 0)), "seconds": seconds})
    return granule, storages, ops


def stretches(number: int, size: int, entry: bool, ops: list[dict]) -> list[Stretch]:
    """Idle stretches of one storage, by op index; one over the window's end is two."""
    count = len(ops)
    found = []
    use, write, alive = (-1, -1, True) if entry else (None, None, False)
    for i, op in enumerate(ops):
        written = number in op["writes"] or number in op["births"]
        if number in op["births"]:
            alive = True
            use = None
        if written or number in op["reads"]:
            if use is not None and i > use + 1:
                found.append(Stretch(size, write, use, i, i))
            use = i
            write = i if written else write
        if number in op["deaths"]:
            if i > use:
                found.append(Stretch(size, write, use, i + 1, count))
            alive = False
    if alive and use is not None and use < count - 1:
        found.append(Stretch(size, write, use, count, count))
    return found


def lower_bound(text: str, budget: int, grid: int) -> float:
    """Seconds. Statements are made between any two of `grid` ops: fewer of them are weaker, not wrong."""
    granule, storages, ops = parse(text)
    count = len(ops)
    sizes = [-(-storage["bytes"] // granule) * granule for storage in storages]
    live, idle = [], []
    now = [storage["entry"] for storage in storages]
    small = most_small = sum(size for size, alive in zip(sizes, now) if alive and size < MIN_PAGED)
    large = sum(size for size, alive in zip(sizes, now) if alive and size >= MIN_PAGED)
    for op in ops:
        for born in op["births"]:
            small, large = (small + sizes[born], large) if sizes[born] < MIN_PAGED else (small, large + sizes[born])
        most_small = max(most_small, small)
        temporary = -(-op["temporary"] // granule) * granule
        live.append(large + (temporary if temporary >= MIN_PAGED else 0))
        for dead in op["deaths"]:
            small, large = (small - sizes[dead], large) if sizes[dead] < MIN_PAGED else (small, large - sizes[dead])
    for number, size in enumerate(sizes):
        if size >= MIN_PAGED:
            idle += stretches(number, size, storages[number]["entry"], ops)
    room = budget - most_small
    over = [k for k in range(count) if live[k] > room]
    if not over:
        return sum(op["seconds"] for op in ops)

    program = highspy.Highs()
    program.setOptionValue("output_flag", False)
    infinite = highspy.kHighsInf
    # In ms and MB, so that all is of one magnitude. Variables: shares below, then starts of ops and the end.
    for _ in idle:
        program.addVar(0, 1)
    for _ in range(count + 1):
        program.addVar(0, infinite)
    start = [len(idle) + k for k in range(count + 1)]
    program.changeColCost(start[count], 1.0)

    def at_least(columns, values, least):
        program.addRow(least, infinite, len(columns), columns, values)

    for k, op in enumerate(ops):
        at_least([start[k + 1], start[k]], [1, -1], op["seconds"] * 1e3)
    for k in over:
        covering = [i for i, s in enumerate(idle) if s.after < k < s.before]
        at_least(covering, [idle[i].size / 1e6 for i in covering], (live[k] - room) / 1e6)
    per_byte = 1e3 / LINK
    chosen = sorted({over[i * len(over) // grid] for i in range(grid)})
    others = sorted({i * count // grid for i in range(grid)} | set(chosen))
    for k in chosen:
        covering = [i for i, s in enumerate(idle) if s.after < k < s.before]
        below = (live[k] - room) * per_byte
        # What of these bytes was not written before op r, leaves after it; what need not come after op d, comes before.
        for r in (r for r in others if r < k):
            early = [i for i in covering if idle[i].last_write < r]
            columns = [start[k], start[r], *early]
            least = below + ops[r]["seconds"] * 1e3
            at_least(columns, [1, -1, *(idle[i].size * per_byte for i in early)], least)
        for d in (d for d in others if d > k):
            late = [i for i in covering if idle[i].returns > d]
            columns = [start[d], start[k], *late]
            least = below + ops[k]["seconds"] * 1e3
            at_least(columns, [1, -1, *(idle[i].size * per_byte for i in late)], least)
    program.run()
    assert program.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return program.getInfo().objective_function_value / 1e3
