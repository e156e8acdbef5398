"""What a search may cost: rows that networks pass over, and seconds."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gar.errors import InputError
from gar.estimators.presets import LEAST_EPOCHS

_LEAST_ROWS = 1000
"""Training rows of a fold below which a time limit does not cut them."""

_TRIAL_SHARE, _SAFETY = 0.4, 0.85
"""The share of the time that trials may use, and that of the rest that finalists are planned for."""


class Budget(NamedTuple):
    """What is trained at the end of a search: finalists on some folds, for some epochs, on at most some rows of each fold."""

    epochs: int
    finalists: int
    folds: int
    rows: int

    @property
    def cost(self) -> int:
        """Return the number of rows that all networks pass over."""
        return self.epochs * self.finalists * self.folds * self.rows

    def within(self, cost: float) -> "Budget":
        """Return a budget of at most this cost: fewer epochs, then finalists, folds, and at last rows.

        Example:
            >>> Budget(epochs=20, finalists=2, folds=2, rows=100_000).within(2e6)
            Budget(epochs=5, finalists=2, folds=2, rows=100000)
            >>> Budget(epochs=20, finalists=2, folds=2, rows=100_000).within(1e5)
            Budget(epochs=5, finalists=1, folds=1, rows=20000)
        """
        cut = self
        for name, least in (("epochs", LEAST_EPOCHS), ("finalists", 1), ("folds", 1), ("rows", _LEAST_ROWS)):
            value = getattr(cut, name)
            affordable = int(value * min(1.0, cost / cut.cost))
            cut = cut._replace(**{name: max(min(least, value), affordable)})
        return cut

    def difference(self, planned: "Budget") -> str:
        """Return what this budget has less of than a planned one, in words."""
        return ", ".join(
            f"{own} of {full} {name}" for name, own, full in zip(self._fields, self, planned, strict=True) if own < full
        )


class WorkMeter:
    """Reports the share of a search that is done, by the rows that its networks pass over.

    Args:
        report: called with the share about every second; True shows progress lines instead, False shows nothing.
        total: rows that all networks of the search are planned to pass over.
    """

    def __init__(self, report: Callable[[float], None] | bool, total: float) -> None:
        self._report, self._total, self._done = report, max(total, 1.0), 0.0

    def part(self, rows: float) -> Callable[[float], None] | bool:
        """Begin a stack whose networks pass over this many rows; return what its search reports to."""
        start, self._done = self._done, self._done + rows
        report = self._report
        if not callable(report):
            return bool(report)
        return lambda share: report(min(1.0, (start + share * rows) / self._total))


class TimeLimit:
    """The seconds that a fit may take, counted from now; None is no limit.

    Trials of successive halving may use a part of them. What then is left, less a reserve, is for the finalists.
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not (isinstance(seconds, int | float | np.number) and seconds > 0):
            raise InputError(f"time_limit={seconds!r}; expected a number of seconds above 0, or None for no limit")
        self.seconds, self._start = seconds, time.monotonic()

    @property
    def deadline(self) -> float | None:
        """Return when to stop, on the clock of ``time.monotonic``."""
        return None if self.seconds is None else self._start + self.seconds

    def go_on(self, epochs: int) -> bool:
        """Return True until the time is over; :func:`gar.stack.train` asks after every epoch."""
        return self.deadline is None or time.monotonic() < self.deadline

    def trial_deadline(self) -> float | None:
        """Return when trials that begin now are to stop: encoding a large table may have taken a part of the time."""
        now = time.monotonic()
        return None if self.deadline is None else now + _TRIAL_SHARE * max(0.0, self.deadline - now)

    def affordable(self, planned: Budget, seconds_per_row: float) -> Budget:
        """Return as much of a budget as fits into the time that is left."""
        if self.deadline is None or not seconds_per_row > 0:
            return planned
        left = max(0.0, self.deadline - time.monotonic())
        return planned.within(_SAFETY * left / seconds_per_row)
