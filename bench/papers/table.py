"""Tables in Markdown, printed while they are made."""


def line(cells: list) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


class Table:
    def __init__(self, heads: list[str]) -> None:
        self.heads = heads
        self.cells: list[list[str]] = []  # by line
        self.results: list[dict] = []  # what each line was made of
        print(line(heads) + "\n|" + "---|" * len(heads), flush=True)

    def add(self, cells: list, result: dict) -> None:
        self.cells.append([str(cell) for cell in cells])
        self.results.append(result)
        print(line(cells), flush=True)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}"
