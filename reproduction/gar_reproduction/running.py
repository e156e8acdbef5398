"""Run units: look for their records, compute what is missing, write it down."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gar.search import RunContext, search
from gar_reproduction.digest import Digest, make_digest, read_digest, write_digest
from gar_reproduction.unit import Unit
from gar_reproduction.winners import extras_of

State = Literal["found", "computed", "unfinished"]


def default_scratch() -> Path:
    """Where unfinished work is kept: a folder in the user's cache."""
    from platformdirs import user_cache_path

    return user_cache_path("gar", appauthor=False) / "reproduce"


@dataclass(frozen=True, kw_only=True)
class Session:
    """Where and how to compute, which changes no number.

    Args:
        records: folder of the digests, one file per unit.
        scratch: folder for the chunks of a search, from which one that was interrupted goes on.
        workers: processes; -1 is one per core.
        progress: show a line on stderr.
        deadline: when to stop, on the clock of ``time.monotonic``; None is never.
    """

    records: Path
    scratch: Path
    workers: int = -1
    progress: bool = False
    deadline: float | None = None

    @property
    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


def run_unit(unit: Unit, session: Session) -> tuple[State, Digest | None]:
    """The unit's digest: read if it is there and good, else computed and written. None if time was up before it was done."""
    data = unit.load()
    found = read_digest(session.records, unit, key=unit.key(data))
    if found is not None:
        return "found", found
    if session.is_late:
        return "unfinished", None
    history = search(
        data,
        unit.models,
        unit.settings,
        context=RunContext(
            records=session.scratch,
            workers=session.workers,
            progress=session.progress,
            label=unit.name,
            deadline=session.deadline,
        ),
    )
    if not history.is_complete:
        return "unfinished", None
    digest = make_digest(unit, data, history, extras_of(unit, data, history))
    write_digest(session.records, unit, digest)
    return "computed", digest


def run_units(units: Sequence[Unit], session: Session, tell: Callable[[Unit, State], None]) -> bool:
    """One unit after another; ``tell`` hears of each. False if time was up before all were done."""
    for unit in units:
        state, _ = run_unit(unit, session)
        tell(unit, state)
        if state == "unfinished":
            return False
    return True
