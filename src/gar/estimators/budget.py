"""What a search spends on a table: folds, epochs and batches by its number of rows, and what a time limit leaves of them."""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gar.errors import InputError
from gar.stack import Fold, StackData

SMALL_ROWS = 4000
"""Up to this many training rows a table gets all epochs, in the smallest batches. More rows need fewer passes over them."""

EPOCHS, BATCH_SIZE, FINALISTS = 60, 32, 4
"""Epochs, rows of a batch and finalists of a small table."""

LARGE_ROWS, FOLDS, LARGE_FOLDS = 20_000, 5, 2
"""Larger tables are split ``LARGE_FOLDS`` times at random instead of into ``FOLDS`` folds."""

VALIDATION_ROWS, TRIAL_VALIDATION_ROWS = 10_000, 2000
"""Most validation rows of a fold, and those of its trials: scores of more of them would be hardly more exact."""

_LARGEST_BATCH = 512
_LEAST_EPOCHS = 5
_LEAST_ROWS = 1000


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
        for name, least in (("epochs", _LEAST_EPOCHS), ("finalists", 1), ("folds", 1), ("rows", _LEAST_ROWS)):
            value = getattr(cut, name)
            affordable = int(value * min(1.0, cost / cut.cost))
            cut = cut._replace(**{name: max(min(least, value), affordable)})
        return cut

    def difference(self, planned: "Budget") -> str:
        """Return what this budget has less of than a planned one, in words."""
        return ", ".join(
            f"{own} of {full} {name}" for name, own, full in zip(self._fields, self, planned, strict=True) if own < full
        )


def epochs_for(rows: int) -> int:
    """Return the number of epochs for this many training rows: it falls with their third root.

    Example:
        >>> [epochs_for(rows) for rows in (500, 16_000, 400_000)]
        [60, 38, 13]
    """
    return int(max(_LEAST_EPOCHS, round(EPOCHS * min(1.0, SMALL_ROWS / rows) ** (1 / 3))))


def batch_size_for(rows: int) -> int:
    """Return the size of a batch for this many training rows: it grows with their square root, in powers of two.

    Example:
        >>> [batch_size_for(rows) for rows in (500, 16_000, 400_000)]
        [32, 64, 256]
    """
    doublings = round(0.5 * np.log2(max(1.0, rows / SMALL_ROWS)))
    return int(min(_LARGEST_BATCH, BATCH_SIZE * 2**doublings))


def finalists_for(rows: int) -> int:
    """Return the number of candidates that are trained for all epochs, for this many training rows."""
    return FINALISTS if rows <= 2 * SMALL_ROWS else FINALISTS // 2


def with_fewer_rows(data: StackData, train: int, valid: int, *, seed: int) -> StackData:
    """Return a table whose folds have at most so many training and validation rows, drawn at random; scalings stay as they are."""
    generator = np.random.default_rng(seed)

    def drawn(rows: np.ndarray, most: int) -> np.ndarray:
        return rows if len(rows) <= most else np.sort(generator.choice(rows, most, replace=False))

    def smaller(fold: Fold) -> Fold:
        return replace(fold, train=drawn(fold.train, train), valid=drawn(fold.valid, valid))

    folds = [smaller(fold) for fold in data.folds]
    if all(small.train is fold.train and small.valid is fold.valid for small, fold in zip(folds, data.folds, strict=True)):
        return data
    return StackData(data.x, data.y, folds, sample_weight=data.sample_weight)


_TRIAL_SHARE = 0.4
_SAFETY = 0.85


class TimeLimit:
    """The seconds that a fit may take, counted from now; None is no limit.

    Trials of successive halving may use a part of them. What then is left, less a reserve, is for the finalists.
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not seconds > 0:
            raise InputError(f"time_limit={seconds!r}; expected a number of seconds above 0, or None for no limit")
        self.seconds, self._start = seconds, time.monotonic()

    @property
    def deadline(self) -> float | None:
        """Return when to stop, on the clock of ``time.monotonic``."""
        return None if self.seconds is None else self._start + self.seconds

    def go_on(self, epochs: int) -> bool:
        """Return True until the time is over; :func:`gar.stack.train` asks after every epoch."""
        return self.deadline is None or time.monotonic() < self.deadline

    @property
    def trial_deadline(self) -> float | None:
        """Return when trials are to stop."""
        return None if self.seconds is None else self._start + _TRIAL_SHARE * self.seconds

    def affordable(self, planned: Budget, seconds_per_row: float) -> Budget:
        """Return as much of a budget as fits into the time that is left."""
        if self.deadline is None or not seconds_per_row > 0:
            return planned
        left = max(0.0, self.deadline - time.monotonic())
        return planned.within(_SAFETY * left / seconds_per_row)
