"""Experiments that are not grids of networks: a function measures something, and a small JSON file records it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gar.errors import InputError
from gar.files import write_whole
from gar_reproduction import provenance


def nothing_missing() -> str | None:
    """Return None: most studies need nothing that could be missing."""
    return None


class Study(NamedTuple):
    """A measurement: one variant of an experiment on one task."""

    experiment: str
    task: str
    variant: str
    measure: Callable[[], dict[str, Any]]
    missing: Callable[[], str | None] = nothing_missing
    """Returns what is missing on this machine, and how to get it; None if the study can be run."""

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.task}/{self.variant}"

    def path(self, records: Path) -> Path:
        return records / f"{self.name}.json"

    def read(self, records: Path) -> dict[str, Any] | None:
        """Return the record, or None if there is none that can be used."""
        try:
            record: dict[str, Any] = json.loads(self.path(records).read_text())
        except (OSError, ValueError):
            return None
        return record if record.get("study") == self.name else None

    def run(self, records: Path) -> dict[str, Any]:
        """Measure and record. What has a record is not measured again: delete the file to repeat it."""
        if (found := self.read(records)) is not None:
            return found
        if (reason := self.missing()) is not None:
            raise InputError(reason)
        record = {"study": self.name, **self.measure()}
        self.path(records).parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path(records), (json.dumps(record, indent=1) + "\n").encode())
        provenance.note(records, self.experiment)
        return record
