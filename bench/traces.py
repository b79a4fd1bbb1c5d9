"""Traces of `tensorpager trace`, read and compared: ops, storages, need. Independent of the C++ reader, which the comparison is a check of."""

import dataclasses
import pathlib

LISTS = ("reads", "writes", "births", "deaths")


@dataclasses.dataclass
class Op:
    name: str
    temporary: int = 0
    flops: int = 0
    moved: int = 0
    precision: str = "float32"
    purity: str | None = None
    reads: tuple = ()
    writes: tuple = ()
    births: tuple = ()
    deaths: tuple = ()


@dataclasses.dataclass
class Trace:
    granule: int
    slab: int
    storages: list  # (bytes, is alive between steps)
    ops: list

    @staticmethod
    def read(path: pathlib.Path) -> "Trace":
        return Trace.parse(path.read_text())

    @staticmethod
    def parse(text: str) -> "Trace":
        trace = Trace(4096, 0, [], [])
        for line in text.splitlines():
            kind, *words = line.split()
            fields = dict(word.split("=", 1) for word in words if "=" in word)
            if kind == "granule":
                trace.granule = int(words[0])
            elif kind == "slab":
                trace.slab = int(words[0])
            elif kind == "storage":
                trace.storages.append((int(fields["bytes"]), "entry" in words))
            elif kind == "op":
                numbers = {name: int(fields.get(name, 0)) for name in ("temporary", "flops", "moved")}
                lists = {name: tuple(map(int, filter(None, fields.get(name, "").split(",")))) for name in LISTS}
                purity = next((word for word in ("pure", "scratch", "fills") if word in words), None)
                precision = fields.get("precision", "float32")
                trace.ops.append(Op(words[0], precision=precision, purity=purity, **numbers, **lists))
        return trace

    def charged(self, count: int) -> int:
        return -(-count // self.granule) * self.granule

    def need(self, with_temporaries: bool = True) -> int:
        live = sum(self.charged(count) for count, entry in self.storages if entry) + self.slab
        most = live
        for op in self.ops:
            live += sum(self.charged(self.storages[storage][0]) for storage in op.births)
            most = max(most, live + (self.charged(op.temporary) if with_temporaries else 0))
            live -= sum(self.charged(self.storages[storage][0]) for storage in op.deaths)
        return most

    def shape(self) -> list:
        """What its ops do to storages of which sizes: equal for two traces of the same step, whatever their times and temporaries."""
        sizes = [
            (op.name, *(tuple(self.storages[i][0] for i in getattr(op, name)) for name in LISTS)) for op in self.ops
        ]
        return sizes


def difference(real: Trace, dry: Trace) -> dict:
    names = [op.name for op in real.ops] == [op.name for op in dry.ops]
    return {
        "ops": (len(real.ops), len(dry.ops)),
        "same_ops": names,
        "same_storages": real.storages == dry.storages,
        "same_steps": real.shape() == dry.shape(),
        "same_work": names and all((a.flops, a.moved) == (b.flops, b.moved) for a, b in zip(real.ops, dry.ops)),
        "need_bytes": (real.need(), dry.need()),
        "without_temporaries_bytes": (real.need(False), dry.need(False)),
    }
