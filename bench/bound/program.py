"""The linear program of the bound.

Variables: the start of each op, and for each stretch between two uses of a storage the share that is below and the share
that is dropped. In ms and MB, so that all is of one magnitude.
"""

import highspy
from bound.rates import Machine
from bound.rebuilding import Rebuilding
from bound.window import Window


def lower_bound(text: str, machine: Machine, budget: int, grid: int, replays: bool = False) -> float:
    """Seconds. Statements are made between any two of `grid` ops: fewer of them are weaker, not wrong."""
    window = Window(text, machine)
    over = [k for k, live in enumerate(window.live) if live > window.room(budget)]
    if not over:
        return window.seconds()
    return Program(window, machine, window.room(budget), replays).solve(over, grid)


class Program:
    def __init__(self, window: Window, machine: Machine, room: int, replays: bool):
        self.ops, self.live, self.room = window.ops, window.live, room
        self.out, self.back = 1e3 / machine.out, 1e3 / machine.back  # ms a byte
        self.idle = window.idle()
        if replays:
            Rebuilding(window.storages, window.ops).say_what_takes(self.idle)
        self.said = set()  # pairs of ops whose replays are counted, as two may be chosen in either order
        self.computed = [0.0]  # ms before each op
        for op in self.ops:
            self.computed.append(self.computed[-1] + op["seconds"] * 1e3)
        self._add_variables()

    def solve(self, over: list[int], grid: int) -> float:
        """Seconds. `over`: the ops at which more is live than there is room for."""
        self._ops_follow_each_other()
        self._what_is_dropped_is_rebuilt()
        for k in over:
            self._what_has_no_room_is_gone(k)
        chosen = sorted({over[i * len(over) // grid] for i in range(grid)})
        others = sorted({i * len(self.ops) // grid for i in range(grid)} | set(chosen))
        for k in chosen:
            self._what_is_gone_has_left_and_returns(k, others)
        self.program.run()
        assert self.program.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return self.program.getInfo().objective_function_value / 1e3

    def _add_variables(self) -> None:
        self.program = highspy.Highs()
        self.program.setOptionValue("output_flag", False)
        for _ in self.idle:
            self.program.addVar(0, 1)  # the share below
        for stretch in self.idle:
            self.program.addVar(0, 0 if stretch.rebuilding is None else 1)  # the share that is dropped
        for _ in range(len(self.ops) + 1):
            self.program.addVar(0, highspy.kHighsInf)  # starts, and the end
        self.dropped = len(self.idle)  # the first of these
        self.start = [2 * len(self.idle) + k for k in range(len(self.ops) + 1)]
        self.end = self.start[-1]
        self.program.changeColCost(self.end, 1.0)

    def _at_least(self, columns: list[int], values: list[float], least: float) -> None:
        self.program.addRow(least, highspy.kHighsInf, len(columns), columns, values)

    def _ops_follow_each_other(self) -> None:
        for k, op in enumerate(self.ops):
            self._at_least([self.start[k + 1], self.start[k]], [1, -1], op["seconds"] * 1e3)

    def _what_is_dropped_is_rebuilt(self) -> None:
        rebuilt = [i for i, stretch in enumerate(self.idle) if stretch.rebuilding is not None]
        for i in rebuilt:
            self._at_least([i, self.dropped + i], [-1, -1], -1)
        self._replays_between(0, len(self.ops))
        columns = [self.end, *(self.dropped + i for i in rebuilt)]
        self._at_least(columns, [1, *(-self.idle[i].with_arguments * 1e3 for i in rebuilt)], self.computed[-1])

    def _replays_between(self, r: int, k: int) -> None:
        """Between these ops are all replays of what is dropped and needed again between them."""
        inside = [i for i, s in enumerate(self.idle) if s.rebuilding is not None and s.after >= r and s.returns <= k]
        if inside and (r, k) not in self.said:
            self.said.add((r, k))
            columns = [self.start[k], self.start[r], *(self.dropped + i for i in inside)]
            values = [1, -1, *(-self.idle[i].rebuilding * 1e3 for i in inside)]
            self._at_least(columns, values, self.computed[k] - self.computed[r])

    def _covering(self, k: int) -> list[int]:
        return [i for i, stretch in enumerate(self.idle) if stretch.after < k < stretch.before]

    def _what_has_no_room_is_gone(self, k: int) -> None:
        covering = self._covering(k)
        both = [*covering, *(self.dropped + i for i in covering)]
        self._at_least(both, [self.idle[i].size / 1e6 for i in covering] * 2, (self.live[k] - self.room) / 1e6)

    def _what_is_gone_has_left_and_returns(self, k: int, others: list[int]) -> None:
        """What has no room at op k, and was not written before op r, leaves after it; what need not come after op d,
        comes before. Also from an op of the window before on, and until one of the next."""
        idle, start, end, count = self.idle, self.start, self.end, len(self.ops)
        covering = self._covering(k)
        gone = [i for i in covering if idle[i].rebuilding is not None]
        too_many = self.live[k] - self.room

        def bytes_pass(starts: dict[int, int], moving: list[int], rate: float, op: int) -> None:
            columns = [*starts, *moving, *(self.dropped + i for i in gone)]
            values = [*starts.values(), *(idle[i].size * rate for i in [*moving, *gone])]
            self._at_least(columns, values, too_many * rate + self.ops[op]["seconds"] * 1e3)

        for r in (r for r in others if r < k):
            bytes_pass({start[k]: 1, start[r]: -1}, [i for i in covering if idle[i].last_write < r], self.out, r)
            self._replays_between(r, k)
        for d in (d for d in others if d > k):
            bytes_pass({start[d]: 1, start[k]: -1}, [i for i in covering if idle[i].returns > d], self.back, k)
            self._replays_between(k, d)
        for r in (r for r in others if r > k):
            early = [i for i in covering if idle[i].last_write < 0 and idle[i].written_before < r]
            bytes_pass({start[k]: 1, end: 1, start[r]: -1}, early, self.out, r)
        for d in (d for d in others if d < k):
            late = [i for i in covering if idle[i].returns == count and idle[i].returns_later > d]
            bytes_pass({end: 1, start[k]: -1, start[d]: 1}, late, self.back, k)
