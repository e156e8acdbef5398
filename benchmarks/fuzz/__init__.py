"""Faults on purpose: damaged files, crafted models, killed processes, writers that meet, counted by what they did.

Each module has ``attempts()``, which yields one :class:`Attempt` for every kind of fault; ``python -m benchmarks.fuzz`` runs them
all and writes the table of the page.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

RECORD = Path(__file__).parents[1] / "records" / "fuzz.json"
PAGE = Path(__file__).parents[2] / "docs" / "what-was-tried.md"
MODULES = ("models", "writers", "kills")
_HEADER = ("what was tried", "times", "silent changes", "tracebacks", "crashes", "lost or mixed", "processes left")


class Attempt(NamedTuple):
    """What was tried, how many times, and how often it ended badly."""

    what: str
    times: int
    silent_changes: int = 0
    """Another result than the right one, without an error."""
    tracebacks: int = 0
    """An exception that is not one clear sentence."""
    crashes: int = 0
    """A process that ended by a signal, or had to be ended since it hung."""
    lost_or_mixed: int = 0
    """A result that is gone, half there, or made of two."""
    processes_left: int = 0
    """Processes that outlived the one that started them."""


def read_record() -> list[Attempt]:
    return [Attempt(*row) for row in json.loads(RECORD.read_text())]


def table(attempts: Iterable[Attempt]) -> str:
    """Return the counts as a table of the page."""
    lines = [_HEADER, ("---",) * len(_HEADER), *((what, *(f"{count:,}" for count in counts)) for what, *counts in attempts)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write(attempts: Iterable[Attempt]) -> None:
    """Write the record, and its table in place of the one on the page."""
    found = list(attempts)
    before = table(read_record()) if RECORD.exists() else "TABLE"
    RECORD.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(PAGE.read_text().replace(before, table(found)))
