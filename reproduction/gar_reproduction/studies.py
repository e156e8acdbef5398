"""Experiments that are no grids of networks: a function measures something, and a small file keeps it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gar.errors import InputError
from gar.files import write_whole


def nothing() -> str | None:
    """What most studies lack."""
    return None


class Study(NamedTuple):
    """One task of one experiment in one variant, and how it is measured."""

    experiment: str
    task: str
    variant: str
    measure: Callable[[], dict[str, Any]]
    lacking: Callable[[], str | None] = nothing
    """What this machine lacks to measure it, and how to get it; None if it can be done."""

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.task}/{self.variant}"

    def path(self, records: Path) -> Path:
        return records / f"{self.name}.json"

    def read(self, records: Path) -> dict[str, Any] | None:
        """The record, or None if there is none that can be used."""
        try:
            record: dict[str, Any] = json.loads(self.path(records).read_text())
        except (OSError, ValueError):
            return None
        return record if record.get("study") == self.name else None

    def run(self, records: Path) -> dict[str, Any]:
        """Measure and record. A record that is there is not measured again: delete it to do so."""
        if (found := self.read(records)) is not None:
            return found
        if (lack := self.lacking()) is not None:
            raise InputError(lack)
        record = {"study": self.name, **self.measure()}
        self.path(records).parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path(records), (json.dumps(record, indent=1) + "\n").encode())
        return record
