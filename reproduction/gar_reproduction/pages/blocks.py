"""What pages are made of, and how it is written as Markdown and as HTML: the same content in both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

NOT_RUN = "not run"
HIT, MISS = "✓", "✗"


@dataclass(frozen=True)
class Cell:
    """One entry of a table."""

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class Table:
    """Headings and rows. The first column is text, all others are numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Figure:
    """A drawing; ``name`` is that of its file without ending."""

    name: str
    alt: str
    png: bytes = field(repr=False)


@dataclass(frozen=True)
class Heading:
    """Of a section of a page."""

    text: str


Block = str | Table | Figure | Heading
"""A text is a paragraph."""


@dataclass(frozen=True)
class Page:
    """One experiment."""

    name: str
    title: str
    blocks: Sequence[Block]

    @property
    def figures(self) -> list[Figure]:
        return [block for block in self.blocks if isinstance(block, Figure)]


def row(first: str, *cells: str | Cell) -> list[Cell]:
    """Texts become cells."""
    return [Cell(first), *(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)]


def markdown(page: Page) -> str:
    """The whole page."""
    return "\n\n".join([f"# {page.title}", *(_markdown(block) for block in page.blocks)]) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"## {block.text}"
    if isinstance(block, Figure):
        return f"![{block.alt}](figures/{block.name}.png)"
    if isinstance(block, Table):
        lines = [block.columns, ["---", *["---:"] * (len(block.columns) - 1)]]
        lines += [[f"**{cell.text}**" if cell.is_best else cell.text for cell in cells] for cells in block.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return block


def plain(table: Table) -> str:
    """A table for the terminal, in columns.

    Example:
        >>> print(plain(Table(["Method", "MAE"], [[Cell("GAR"), Cell("4.569(0.086)")]])))
        Method           MAE
        GAR     4.569(0.086)
    """
    lines = [list(table.columns), *([cell.text for cell in cells] for cells in table.rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(table.columns))]
    return "\n".join(
        "  ".join(_padded(text, width, place) for place, (text, width) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )


def _padded(text: str, width: int, place: int) -> str:
    return text.rjust(width) if place else text.ljust(width)


_STYLE = """
:root { color-scheme: light dark; --line: #8885; --best: #d9480f; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
.table { overflow-x: auto; }
img { max-width: 100%; height: auto; background: white; border-radius: 4px; }
nav a { margin-right: 1rem; }
""".strip()


def html(title: str, pages: Iterable[Page]) -> str:
    """All pages as one, with links to each."""
    pages = list(pages)
    links = "\n".join(f'<a href="#{escape(page.name)}">{escape(page.title)}</a>' for page in pages)
    sections = "\n".join(_section(page) for page in pages)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>\n{_STYLE}\n</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n<nav>\n{links}\n</nav>\n{sections}\n</body>\n</html>\n"
    )


def _section(page: Page) -> str:
    inner = "\n".join(_html(block) for block in page.blocks)
    return f'<section id="{escape(page.name)}">\n<h2>{escape(page.title)}</h2>\n{inner}\n</section>'


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h3>{escape(block.text)}</h3>"
    if isinstance(block, Figure):
        return f'<p><img src="figures/{escape(block.name)}.png" alt="{escape(block.alt)}" loading="lazy"></p>'
    if isinstance(block, Table):
        head = "".join(f'<th scope="col">{escape(column)}</th>' for column in block.columns)
        body = "\n".join(f"<tr>{''.join(_td(cell) for cell in cells)}</tr>" for cells in block.rows)
        return f'<div class="table"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    return f"<p>{escape(block)}</p>"


def _td(cell: Cell) -> str:
    return f"<td><b>{escape(cell.text)}</b></td>" if cell.is_best else f"<td>{escape(cell.text)}</td>"
