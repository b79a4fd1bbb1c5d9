"""A lower bound on the time of a window, as a linear program: any share of any storage may be below, or dropped and rebuilt, between two uses.

.venv/bin/python bench/lower_bound.py [--no-replays] [--planner NAME]... --machine NAME [--budget PERCENT]... TRACE...

Prints for each trace and budget the bound's overhead, that of each planner's plan (of pages without replays, else of
hybrid), and by how many points the last one is above the bound. Plans have all of the links and no reserve, as the bound
has.

Independent of the planners and of their own bound. Variables: the start of each op, and for each stretch between two uses
of a storage the share that is below and the share that is dropped. Bytes are charged until their page-out is done, and
from their page-in's begin; transfers have no latency. What is dropped is charged again only when it is needed, and what
rebuilding it takes is the ops that had written it, and those that had written arguments that are dead by then: one replay
may serve all that need it, of whom those count that it had written, or else those nearest to it. Op order is fixed, and
nothing needs an offset. Windows follow each other, and each does as the one before: what is below when one begins has
left in the one before, or leaves in its beginning.
"""

import argparse
import json
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import highspy

COMMAND = Path(sys.executable).with_name("tensorpager")
MIN_PAGED = 16 * 1024


def class_of(op: str) -> str:
    """As base::class_of."""
    for part, name in (("conv", "convolution"), ("rnn", "recurrent"), ("attention", "attention")):
        if part in op:
            return name
    return "product"


@dataclass
class Machine:
    """The rates of a machine file: bytes and operations per second, and seconds for the launch of an op."""

    memory: float = 0.0
    launch: float = 0.0
    arithmetic: dict = field(default_factory=dict)  # by class of op and precision
    out: float = 0.0
    back: float = 0.0

    @staticmethod
    def parse(text: str) -> "Machine":
        machine = Machine()
        for line in text.splitlines():
            kind, *words = line.split()
            fields = {key: float(value) for key, _, value in (word.partition("=") for word in words) if value}
            if kind == "ops":
                machine.memory, machine.launch = fields["bytes_per_second"], fields["launch_ns"] / 1e9
                machine.arithmetic["product"] = fields
            elif kind == "rates":
                machine.arithmetic[words[0]] = fields
            elif kind == "link" and words[0] == "out":
                machine.out = max(machine.out, fields["bytes_per_second"])
            elif kind == "link":
                machine.back = max(machine.back, fields["bytes_per_second"])
        return machine

    def seconds(self, op: str, flops: int, moved: int, precision: str) -> float:
        if not (flops or moved):
            return 0.0
        return self.launch + max(flops / self.rate(class_of(op), precision) if flops else 0.0, moved / self.memory)

    def rate(self, op_class: str, precision: str) -> float:
        """As base::FlopRates::of."""
        tried = (precision, "float32") if precision == "tf32" else (precision,)
        rates = (self.arithmetic.get(name, {}) for name in (op_class, "product"))
        return next(of[name] for of in rates for name in tried if name in of)


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


def parse(text: str, machine: Machine) -> tuple[int, list[dict], list[dict]]:
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
            seconds = machine.seconds(words[0], flops, moved, fields.get("precision", "float32"))
            purity = next((word for word in ("pure", "scratch", "fills") if word in words), None)
            ops.append({**ids, "purity": purity, "temporary": int(fields.get("temporary", 0)), "seconds": seconds})
    return granule, storages, ops


def stretches(number: int, size: int, entry: bool, ops: list[dict]) -> list[Stretch]:
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


class Rebuilding:
    """Until which op each version of a storage can be had, and what its ops take."""

    def __init__(self, storages: list[dict], ops: list[dict]):
        self.storages, self.ops = storages, ops
        self.writers = [[] for _ in storages]
        self.deaths = [len(ops)] * len(storages)
        self.versions = []  # by op: the version of each argument that it finds
        self.until = {}  # by storage and version: the last op before which it can be rebuilt; absent if never
        for i, op in enumerate(ops):
            self.versions.append({id: len(self.writers[id]) for id in {*op["reads"], *op["writes"]}})
            for id in {*op["writes"], *op["births"]}:
                self.writers[id].append(i)
            for id in op["deaths"]:
                self.deaths[id] = i
        for i, op in enumerate(ops):
            for id in {*op["writes"], *op["births"]}:
                until = self._rebuildable_until(i, id)
                if until is not None:
                    self.until[id, self.writers[id].index(i) + 1] = until

    def say_what_takes(self, stretches: list[Stretch]) -> None:
        """Fills in what the replays of dropped storages take at least.

        An op runs again at least as often as a storage that it had written is dropped, and at least once if one is that
        needs it for an argument. So any average of these is a bound.
        """
        own = {}  # by op: storages that it had written
        nearest = {}  # by op that wrote none of these: how far it is, and stretches that need it for an argument
        for i, stretch in enumerate(stretches):
            version = self._version(stretch)
            if version and self.until.get((stretch.storage, version), -1) >= stretch.returns:
                stretch.rebuilding = 0.0
                for op in self._makers(stretch.storage, version):
                    own.setdefault(op, set()).add(stretch.storage)
                for op, far in self._makers_of_dead_arguments(stretch, version).items():
                    if op not in nearest or far < nearest[op][0]:
                        nearest[op] = far, []
                    if far == nearest[op][0]:
                        nearest[op][1].append(i)
        for stretch in stretches:
            if stretch.rebuilding is not None:
                makers = self._makers(stretch.storage, self._version(stretch))
                stretch.rebuilding = sum(self.ops[op]["seconds"] / len(own[op]) for op in makers)
                stretch.with_arguments = stretch.rebuilding
        for op, (_, needing) in nearest.items():
            for i in needing if op not in own else []:
                stretches[i].with_arguments += self.ops[op]["seconds"] / len(needing)

    def _version(self, stretch: Stretch) -> int:
        return sum(1 for op in self.writers[stretch.storage] if op <= stretch.after)

    def _makers(self, id: int, version: int) -> list[int]:
        """The ops that make this version of a storage, from the last that creates or fills it."""
        ops = self.writers[id][:version]
        for first in reversed(range(version)):
            if self._is_filled(self.ops[ops[first]], id):
                return ops[first:]
        return ops

    def _makers_of_dead_arguments(self, stretch: Stretch, version: int) -> dict[int, int]:
        """Also those of arguments of arguments, but a few, by how many arguments away they are."""
        found, seen, todo = {}, {(stretch.storage, version)}, deque([(stretch.storage, version, 0)])
        while todo and len(found) < 64:
            *made, far = todo.popleft()
            for op in self._makers(*made):
                found.setdefault(op, far)
                for read in self.ops[op]["reads"]:
                    argument = read, self.versions[op][read]
                    if read == stretch.storage or self.storages[read]["entry"] or argument in seen:
                        continue
                    if self._there_until(*argument) < stretch.returns:
                        seen.add(argument)
                        todo.append((*argument, far + 1))
        return {op: far for op, far in found.items() if far > 0}

    @staticmethod
    def _is_filled(op: dict, id: int) -> bool:
        return op["purity"] == "fills" and id in op["writes"] and id not in op["reads"]

    def _is_cloned(self, op: dict, id: int) -> bool:
        return op["purity"] == "scratch" and self.storages[id]["entry"] and id in op["writes"]

    def _there_until(self, id: int, version: int) -> int:
        later = self.writers[id][version] if version < len(self.writers[id]) else len(self.ops)
        return later if self.storages[id]["entry"] else min(later, self.deaths[id])

    def _rebuildable_until(self, i: int, id: int) -> int | None:
        op, version = self.ops[i], self.writers[id].index(i) + 1
        if self.storages[id]["entry"] or op["purity"] is None:
            return None
        if any(other != id and not self._is_cloned(op, other) for other in op["writes"]):
            return None
        is_new = version == 1 or self._is_filled(op, id)
        until = len(self.ops) if is_new else self.until.get((id, version - 1))
        if until is None:
            return None
        for read in op["reads"]:
            if read == id or self._is_cloned(op, read):
                continue
            found = self.versions[i][read]
            until = min(until, max(self._there_until(read, found), self.until.get((read, found), -1)))
        return until


def lower_bound(text: str, machine: Machine, budget: int, grid: int, replays: bool = False) -> float:
    """Seconds. Statements are made between any two of `grid` ops: fewer of them are weaker, not wrong."""
    granule, storages, ops = parse(text, machine)
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
    if replays:
        Rebuilding(storages, ops).say_what_takes(idle)
    room = budget - most_small
    over = [k for k in range(count) if live[k] > room]
    if not over:
        return sum(op["seconds"] for op in ops)

    program = highspy.Highs()
    program.setOptionValue("output_flag", False)
    infinite = highspy.kHighsInf
    # In ms and MB, so that all is of one magnitude. Variables: shares below, shares dropped, then starts and the end.
    for _ in idle:
        program.addVar(0, 1)
    for stretch in idle:
        program.addVar(0, 0 if stretch.rebuilding is None else 1)
    for _ in range(count + 1):
        program.addVar(0, infinite)
    start = [2 * len(idle) + k for k in range(count + 1)]
    dropped = len(idle)  # the first of these
    program.changeColCost(start[count], 1.0)

    def at_least(columns, values, least):
        program.addRow(least, infinite, len(columns), columns, values)

    for i, stretch in enumerate(idle):
        if stretch.rebuilding is not None:
            at_least([i, dropped + i], [-1, -1], -1)
    for k, op in enumerate(ops):
        at_least([start[k + 1], start[k]], [1, -1], op["seconds"] * 1e3)
    computed = [0.0]  # ms before each op
    for op in ops:
        computed.append(computed[-1] + op["seconds"] * 1e3)

    said = set()  # of these statements, as two ops may be chosen in either order

    def takes_its_replays(r, k):
        """Between these ops are all replays of what is dropped and needed again between them."""
        inside = [i for i, s in enumerate(idle) if s.rebuilding is not None and s.after >= r and s.returns <= k]
        if inside and (r, k) not in said:
            said.add((r, k))
            columns = [start[k], start[r], *(dropped + i for i in inside)]
            at_least(columns, [1, -1, *(-idle[i].rebuilding * 1e3 for i in inside)], computed[k] - computed[r])

    takes_its_replays(0, count)
    rebuilt = [i for i, s in enumerate(idle) if s.rebuilding is not None]
    columns = [start[count], *(dropped + i for i in rebuilt)]
    at_least(columns, [1, *(-idle[i].with_arguments * 1e3 for i in rebuilt)], computed[count])
    for k in over:
        covering = [i for i, s in enumerate(idle) if s.after < k < s.before]
        both = [*covering, *(dropped + i for i in covering)]
        at_least(both, [idle[i].size / 1e6 for i in covering] * 2, (live[k] - room) / 1e6)
    chosen = sorted({over[i * len(over) // grid] for i in range(grid)})
    others = sorted({i * count // grid for i in range(grid)} | set(chosen))
    for k in chosen:
        covering = [i for i, s in enumerate(idle) if s.after < k < s.before]
        out, back = 1e3 / machine.out, 1e3 / machine.back
        gone = [dropped + i for i in covering if idle[i].rebuilding is not None]
        gone_sizes = [idle[i].size for i in covering if idle[i].rebuilding is not None]
        # What of these bytes was not written before op r, leaves after it; what need not come after op d, comes before.
        for r in (r for r in others if r < k):
            early = [i for i in covering if idle[i].last_write < r]
            columns = [start[k], start[r], *early, *gone]
            least = (live[k] - room) * out + ops[r]["seconds"] * 1e3
            at_least(
                columns, [1, -1, *(idle[i].size * out for i in early), *(size * out for size in gone_sizes)], least
            )
            takes_its_replays(r, k)
        for d in (d for d in others if d > k):
            late = [i for i in covering if idle[i].returns > d]
            columns = [start[d], start[k], *late, *gone]
            least = (live[k] - room) * back + ops[k]["seconds"] * 1e3
            at_least(
                columns, [1, -1, *(idle[i].size * back for i in late), *(size * back for size in gone_sizes)], least
            )
            takes_its_replays(k, d)
        # The same from an op of the window before on, and until an op of the next.
        for r in (r for r in others if r > k):
            early = [i for i in covering if idle[i].last_write < 0 and idle[i].written_before < r]
            both = [*early, *gone]
            least = (live[k] - room) * out + ops[r]["seconds"] * 1e3
            values = [idle[i].size * out for i in early] + [size * out for size in gone_sizes]
            at_least([start[k], start[count], start[r], *both], [1, 1, -1, *values], least)
        for d in (d for d in others if d < k):
            late = [i for i in covering if idle[i].returns == count and idle[i].returns_later > d]
            both = [*late, *gone]
            least = (live[k] - room) * back + ops[k]["seconds"] * 1e3
            values = [idle[i].size * back for i in late] + [size * back for size in gone_sizes]
            at_least([start[count], start[k], start[d], *both], [1, -1, 1, *values], least)
    program.run()
    assert program.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return program.getInfo().objective_function_value / 1e3


def simulated(trace: Path, percent: int, machine: str, planner: str) -> dict:
    command = [COMMAND, "simulate", trace, "--budget", f"{percent}%", "--machine", machine, "--json"]
    command += ["--planner", planner, "--reserve", "0", "--link-share", "100"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--budget", type=int, action="append", metavar="PERCENT", help="of the need; may be repeated")
    parser.add_argument("--planner", action="append", help="may be repeated")
    parser.add_argument("--no-replays", action="store_true")
    parser.add_argument("--grid", type=int, default=48, help="ops between which statements are made")
    options = parser.parse_args()
    described = subprocess.run([COMMAND, "machine", options.machine], capture_output=True, text=True, check=True).stdout
    machine = Machine.parse(described)
    planners = options.planner or ["pages" if options.no_replays else "hybrid"]
    print(f"| trace | machine | budget | bound | {' | '.join(planners)} | points |\n|{'---|' * (len(planners) + 5)}")
    for trace in options.traces:
        for percent in options.budget or [75, 50, 33, 25]:
            plans = [simulated(trace, percent, options.machine, planner) for planner in planners]
            head = f"| {trace.stem} | {options.machine} | {percent} % |"
            of_any = next((plan for plan in plans if plan["fits"]), None)
            if of_any is None:
                print(head, "below the floor |" + " |" * (len(planners) + 1), flush=True)
                continue
            compute = of_any["step_seconds"] / (1 + of_any["overhead"])
            budget = of_any["need_bytes"] * percent // 100
            bound = lower_bound(trace.read_text(), machine, budget, options.grid, not options.no_replays) / compute - 1
            overheads = [f"{100 * plan['overhead']:.2f}" if plan["fits"] else "none" for plan in plans]
            points = f"{100 * (plans[-1]['overhead'] - bound):.2f}" if plans[-1]["fits"] else ""
            print(head, f"{100 * bound:.2f} |", " | ".join(overheads), f"| {points} |", flush=True)


if __name__ == "__main__":
    main()
