"""The picture of a paged run, as SVG: what the program holds and what is in memory, over its ops. step_over_time.py draws with it, too."""

from dataclasses import dataclass
from html import escape

MIB, GIB = 1 << 20, 1 << 30
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

    @property
    def highest(self):
        return max([self.need, self.budget, *self.held.values, *self.resident.values])


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
    """Maps ops (or another unit of time) and bytes to pixels."""

    def __init__(self, ops, highest, pixels=(TOP, BOTTOM), ticks=6):
        self.ops = max(ops, 1)
        self.y_top, self.y_bottom = pixels
        unit = MIB if highest < 4 * GIB else GIB
        self.y_step = tick_step(highest * 1.06 / unit, ticks) * unit
        self.top = -(-int(highest * 1.06) // self.y_step) * self.y_step

    def x(self, op):
        return round(LEFT + (RIGHT - LEFT) * op / self.ops, 2)

    def y(self, number):
        return round(self.y_bottom - (self.y_bottom - self.y_top) * number / self.top, 2)

    def steps(self, curve, end):
        """The curve as path commands, a horizontal line for each value."""
        ends = [*curve.ops[1:], end]
        return " ".join(
            f"L{self.x(begin)} {self.y(value)} H{self.x(end)}"
            for begin, end, value in zip(curve.ops, ends, curve.values, strict=True)
        )

    def area(self, curve, color, opacity, end=None):
        """`end`: of the last value, else at the picture's."""
        line = self.steps(curve, self.ops if end is None else end)
        if not line:
            return ""
        return (
            f'<path d="M{self.x(curve.ops[0])} {self.y_bottom} {line} V{self.y_bottom} Z" fill="{color}" fill-opacity="{opacity}"/>'
            f'<path d="M{line[1:]}" fill="none" stroke="{color}" stroke-width="1.2" stroke-linejoin="round"/>'
        )


def text(x, y, words, color=INK, anchor="start", font=13, weight="normal"):
    style = f'fill="{color}" text-anchor="{anchor}" font-size="{font}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


def line(x1, x2, y1, y2, color=MUTED):
    return f'<line x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}" stroke="{color}"/>'


def axes(plot, time="op index: the program's time"):
    parts = []
    for number in range(0, plot.top + 1, plot.y_step):
        y = plot.y(number)
        parts.append(line(LEFT, RIGHT, y, y, GRID))
        parts.append(text(LEFT - 8, y + 4, size(number) if number else "0", MUTED, "end", 12))
    step = tick_step(plot.ops, 8)
    for op in range(0, plot.ops + 1, step):
        parts.append(text(plot.x(op), plot.y_bottom + 18, f"{op:,}", MUTED, "middle", 12))
    parts.append(text((LEFT + RIGHT) / 2, plot.y_bottom + 37, time, MUTED, "middle", 12))
    parts.append(line(LEFT, RIGHT, plot.y_bottom, plot.y_bottom))
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


def page(parts, title, subtitle, caption, height=HEIGHT):
    whole = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, Helvetica, Arial, sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        text(LEFT, 30, title, INK, font=18, weight="600"),
        text(LEFT, 51, subtitle, MUTED),
        *parts,
        text(LEFT, height - 14, caption, MUTED, font=11.5),
        "</svg>",
    ]
    return "\n".join(whole) + "\n"


def render(picture):
    plot = Plot(picture.ops, picture.highest)
    share = 100 * picture.budget / picture.need
    parts = [
        *legend([(HELD, 0.35, "held by the program (no budget)"), (RESIDENT, 0.6, "in memory, under the budget")]),
        *axes(plot),
        plot.area(picture.held.until(picture.ops), HELD, 0.35),
        plot.area(picture.resident.until(picture.ops), RESIDENT, 0.6),
        *level(plot, "need", picture.need, MUTED, f"need {size(picture.need)}"),
        *level(plot, "budget", picture.budget, BUDGET, f"budget {size(picture.budget)}, {share:.0f} % of the need"),
    ]
    return page(parts, picture.title, picture.subtitle, picture.caption)
