"""Pages whose tables are rendered from records: each stands between two comments that name it."""

from collections.abc import Mapping
from pathlib import Path

from gar.files import write_whole


def framed(name: str, table: str) -> str:
    """Return a table as it stands in a page."""
    return f"<!-- {name} -->\n\n{table}\n\n<!-- end of {name} -->"


def write_tables(page: Path, tables: Mapping[str, str]) -> None:
    """Replace tables of a page by those of the same names."""
    text = page.read_text()
    for name, table in tables.items():
        before, rest = text.split(f"<!-- {name} -->\n")
        text = before + framed(name, table) + rest.split(f"<!-- end of {name} -->", 1)[1]
    write_whole(page, text.encode())
