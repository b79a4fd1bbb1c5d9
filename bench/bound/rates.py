"""What ops and transfers take on a machine, read from its file independently of the C++ reader."""

from dataclasses import dataclass, field


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
