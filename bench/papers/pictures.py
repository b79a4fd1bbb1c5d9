"""Bar charts of the papers' tables, as SVG."""

import html
import math
from pathlib import Path

WIDTH, LEFT, BAR, GAP = 900, 240, 9, 14  # pixels
COLOURS = ("#b8b8b8", "#7a7a7a", "#2b7a4b", "#7fbf94", "#c9822b", "#4a6fa5")


def bars(groups: dict[str, dict[str, float]], unit: str) -> str:
    """A group of bars for each key, on a logarithmic axis; names of bars are those of the inner keys."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    values = [value for group in groups.values() for value in group.values() if value > 0]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))
    span = WIDTH - LEFT - 70

    def x_of(value: float) -> float:
        return LEFT + span * math.log(max(value, low) / low) / math.log(high / low)

    parts, y = [], 44
    for i, name in enumerate(names):
        x = LEFT + 150 * i
        parts.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{COLOURS[i]}"/>')
        parts.append(f'<text x="{x + 17}" y="20">{html.escape(name)}</text>')
    parts.append(f'<text x="{WIDTH - 8}" y="20" text-anchor="end" fill="#7a7a7a">logarithmic</text>')
    for label, group in groups.items():
        middle = y + BAR * len(group) / 2 + 4
        parts.append(f'<text x="{LEFT - 8}" y="{middle:.1f}" text-anchor="end">{html.escape(label)}</text>')
        for name, value in group.items():
            end = x_of(value)
            parts.append(
                f'<rect x="{LEFT}" y="{y}" width="{max(end - LEFT, 1):.1f}" height="{BAR - 1}" '
                f'fill="{COLOURS[names.index(name)]}"/>'
            )
            parts.append(f'<text x="{end + 4:.1f}" y="{y + BAR - 1}" font-size="9">{value:g}{unit}</text>')
            y += BAR
        y += GAP
    frame = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="12">'
    )
    return "\n".join([frame, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def batches(lines: list[dict]) -> str:
    """The largest batch of each net: the paper's, plain PyTorch's, and those of hybrid plans."""
    groups = {}
    for entry in lines:
        result = entry["result"]
        within = {at["overhead"]: at["largest"] for at in result["fit"]["within"]}
        group = {"the paper": result["reached"], "plain PyTorch": result["fit"]["plain"]}
        group |= {f"hybrid at {at:.0%}": within[at] and within[at]["size"] for at in (0.1, 0.5)}
        groups[result["name"]] = {name: value for name, value in group.items() if value}
    return bars(groups, "")


def planners(lines: list[dict]) -> str:
    """The overhead of the best of the published planners, of ours that only pages, and of hybrid."""
    groups = {}
    for entry in lines:
        plans = {name: plan["overhead"] for name, plan in entry["result"]["plans"].items() if plan["fits"]}
        published = [plans[name] for name in plans if name not in ("pages", "recompute", "hybrid")]
        group = {
            "best published": min(published, default=None),
            "pages": plans.get("pages"),
            "hybrid": plans.get("hybrid"),
        }
        shown = {name: round(100 * value, 1) for name, value in group.items() if value is not None}
        if any(shown.values()):
            groups[f"{entry['cells'][0]}, {entry['cells'][1].split(', ')[1]}"] = shown
    return bars(groups, " %")


OF_TABLES = {"batches": batches, "planners": planners}


def write(tables: dict, folder: Path) -> None:
    for name, draw in OF_TABLES.items():
        if tables.get(name, {}).get("lines"):
            (folder / f"{name}.svg").write_text(draw(tables[name]["lines"]))
