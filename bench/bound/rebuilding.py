"""Which dropped storages replays can rebuild, and what these take at least."""

from collections import deque

from bound.window import Stretch


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
