"""Tables in Markdown."""


def line(cells: list) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def head(names: list[str]) -> str:
    return line(names) + "\n|" + "---|" * len(names)


def or_none(value) -> str:
    return "none" if value is None else str(value)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}"
