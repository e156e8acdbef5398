"""The parts of pages, written as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass, field

NOT_RUN = "not run"
HIT, MISS = "✓", "✗"


@dataclass(frozen=True)
class PageTable:
    """A table of a page. The first column is text, all others are numbers; the best ones are bold."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class PageFigure:
    """A figure of a page; ``name`` is that of its file without ending."""

    name: str
    alt: str
    png: bytes = field(repr=False)


Block = str | PageTable | PageFigure
"""A part of a page; a text is a paragraph or a heading."""


@dataclass(frozen=True)
class Page:
    """The page of one experiment."""

    name: str
    title: str
    blocks: Sequence[Block]

    @property
    def figures(self) -> list[PageFigure]:
        return [block for block in self.blocks if isinstance(block, PageFigure)]


def markdown(page: Page) -> str:
    """Return a page as Markdown."""
    return "\n\n".join([f"# {page.title}", *(_markdown(block) for block in page.blocks)]) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, PageFigure):
        return f"![{block.alt}](figures/{block.name}.png)"
    if isinstance(block, PageTable):
        lines = [block.columns, ["---", *["---:"] * (len(block.columns) - 1)], *block.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return block


def plain(table: PageTable) -> str:
    """Return a table for the terminal, in columns.

    Example:
        >>> print(plain(PageTable(["Method", "MAE"], [["GAR", "**4.569(0.086)**"]])))
        Method           MAE
        GAR     4.569(0.086)
    """
    lines = [list(table.columns), *([text.strip("*") for text in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(rest, widths[1:], strict=True))])
        for first, *rest in lines
    )
