"""The picture of a paged run, as SVG: what the program holds and what is in memory, over its ops."""

from dataclasses import dataclass
from html import escape

MIB = 1 << 20
WIDTH, HEIGHT = 960, 470
LEFT, RIGHT, TOP, BOTTOM = 76, 936, 92, 390  # of the plot, in pixels
HELD, RESIDENT, BUDGET, INK, MUTED, GRID = "#94a3b8", "#0f766e", "#c2410c", "#1e293b", "#64748b", "#e2e8f0"


@dataclass
class Curve:
    """Bytes from ops[i] up to ops[i + 1]; the last value holds to the end of the picture."""

    ops: list
    values: list

    def until(self, end):
        kept = [(op, value) for op, value in zip(self.ops, self.values, strict=True) if op < end]
        return Curve([op for op, _ in kept], [value for _, value in kept])


@dataclass
class Picture:
    held: Curve  # bytes that the program holds, in memory or not
    resident: Curve  # bytes in memory, as charged to the budget
    need: int
    budget: int
    ops: int  # width of the picture
    title: str
    subtitle: str
    caption: str


def size(number):
    return f"{number / MIB:.0f} MiB" if number < 1000 * MIB else f"{number / MIB / 1024:.2f} GiB"


def tick_step(limit, most):
    """The smallest of 1, 2, 5 times a power of ten that divides [0, limit] into at most `most` parts."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if limit / (factor * power) <= most:
                return factor * power
        power *= 10


class Plot:
    """Maps ops and bytes to pixels."""

    def __init__(self, picture):
        self.ops = max(picture.ops, 1)
        top = max([picture.need, picture.budget, *picture.held.values, *picture.resident.values])
        self.y_step = tick_step(top * 1.06 / MIB, 6) * MIB
        self.top = -(-int(top * 1.06) // self.y_step) * self.y_step

    def x(self, op):
        return round(LEFT + (RIGHT - LEFT) * op / self.ops, 2)

    def y(self, number):
        return round(BOTTOM - (BOTTOM - TOP) * number / self.top, 2)

    def steps(self, curve):
        """The curve as path commands, a horizontal line for each value."""
        ends = [*curve.ops[1:], self.ops]
        return " ".join(
            f"L{self.x(begin)} {self.y(value)} H{self.x(end)}"
            for begin, end, value in zip(curve.ops, ends, curve.values, strict=True)
        )

    def area(self, curve, color, opacity):
        line = self.steps(curve)
        if not line:
            return ""
        return (
            f'<path d="M{self.x(curve.ops[0])} {BOTTOM} {line} V{BOTTOM} Z" fill="{color}" fill-opacity="{opacity}"/>'
            f'<path d="M{line[1:]}" fill="none" stroke="{color}" stroke-width="1.2" stroke-linejoin="round"/>'
        )


def text(x, y, words, color=INK, anchor="start", font=13, weight="normal"):
    style = f'fill="{color}" text-anchor="{anchor}" font-size="{font}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


def axes(plot):
    parts = []
    for number in range(0, plot.top + 1, plot.y_step):
        y = plot.y(number)
        parts.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}" stroke="{GRID}"/>')
        parts.append(text(LEFT - 8, y + 4, size(number) if number else "0", MUTED, "end", 12))
    step = tick_step(plot.ops, 8)
    for op in range(0, plot.ops + 1, step):
        parts.append(text(plot.x(op), BOTTOM + 18, f"{op:,}", MUTED, "middle", 12))
    parts.append(text((LEFT + RIGHT) / 2, BOTTOM + 37, "op index: the program's time", MUTED, "middle", 12))
    return parts


def level(plot, name, number, color, words):
    """A horizontal line with its label above its right end, on a white ground so that a curve does not hide it."""
    y = plot.y(number)
    width = 7.2 * len(words) + 8
    return [
        f'<line id="{name}" x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="1.6" '
        'stroke-dasharray="7 4"/>',
        f'<rect x="{RIGHT - width}" y="{y - 20}" width="{width}" height="16" rx="3" fill="#fff" fill-opacity="0.85"/>',
        text(RIGHT - 4, y - 8, words, color, "end", 13, "600"),
    ]


def legend(entries):
    parts, x = [], LEFT
    for color, opacity, words in entries:
        parts.append(f'<rect x="{x}" y="69" width="14" height="12" rx="2" fill="{color}" fill-opacity="{opacity}"/>')
        parts.append(text(x + 20, 79, words, INK, font=12.5))
        x += 40 + 6.6 * len(words)
    return parts


def render(picture):
    plot = Plot(picture)
    share = 100 * picture.budget / picture.need
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="system-ui, Helvetica, Arial, sans-serif">',
        f"<title>{escape(picture.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        text(LEFT, 30, picture.title, INK, font=18, weight="600"),
        text(LEFT, 51, picture.subtitle, MUTED),
        *legend([(HELD, 0.35, "held by the program (no budget)"), (RESIDENT, 0.6, "in memory, under the budget")]),
        *axes(plot),
        plot.area(picture.held.until(picture.ops), HELD, 0.35),
        plot.area(picture.resident.until(picture.ops), RESIDENT, 0.6),
        *level(plot, "need", picture.need, MUTED, f"need {size(picture.need)}"),
        *level(plot, "budget", picture.budget, BUDGET, f"budget {size(picture.budget)}, {share:.0f} % of the need"),
        f'<line x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}" stroke="{MUTED}"/>',
        text(LEFT, HEIGHT - 14, picture.caption, MUTED, font=11.5),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
