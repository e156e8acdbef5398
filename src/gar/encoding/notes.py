"""Remarks about columns for a report, and names of columns for messages."""

from collections.abc import Iterable, Sequence


class ColumnNotes(dict[str, list[str]]):
    """Remarks about columns for the report: each remark with the columns that it applies to."""

    def add(self, remark: str, name: str) -> None:
        self.setdefault(remark, []).append(name)

    def lines(self) -> tuple[str, ...]:
        """Return one line for each remark, with the first few columns."""
        return tuple(
            f"{remark} ({len(names)} {'column' if len(names) == 1 else 'columns'}): {first_few(names)}"
            for remark, names in self.items()
        )


def quoted(names: Iterable[object]) -> str:
    """Return at most eight names in quotation marks, the first 40 characters of each, and the number of the others."""
    return first_few([repr(str(name)[:40]) for name in names], limit=8)


def first_few(names: Sequence[str], limit: int = 5) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
