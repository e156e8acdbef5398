"""Columns of numbers and of dates: gaps are filled with a median and marked; dates are days and the parts that repeat."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from gar.encoding.cells import Cells, DateOrder, is_missing_mark
from gar.errors import InputError

Cycle = Literal["year", "week", "day"]
"""What repeats in dates: the season, the day of the week, the time of day."""

_SHORTEST_SEASON = 180
"""Days that dates must span, so that the season is a feature."""


@dataclass(frozen=True, kw_only=True)
class FilledColumn:
    """What columns of numbers and of dates share.

    A missing value becomes ``fill``, the median of the training rows; it stays NaN if ``fill`` is None. With ``marked``, an
    indicator column holds 1 where a value is missing.
    """

    name: str
    fill: float | None = 0.0
    marked: bool = False

    def depends_on_rows(self, codes: np.ndarray) -> bool:
        """Return True if the features of these values depend on the rows that the column is fitted to."""
        return self.fill is not None and bool(np.isnan(codes).any())

    def fit(self, codes: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Self:
        """Return a copy that fills missing values with the median of these."""
        return self if self.fill is None else replace(self, fill=_median(codes, weight))

    @property
    def _mark(self) -> list[str]:
        return [f"{self.name} is missing"] if self.marked else []

    def _with_mark(self, codes: np.ndarray, *more: np.ndarray) -> np.ndarray:
        """Return the filled values, further features, and the indicator of missing values."""
        return np.column_stack([_filled(codes, self.fill), *more, *([np.isnan(codes)] if self.marked else [])])


@dataclass(frozen=True, kw_only=True)
class NumericColumn(FilledColumn):
    """A column of numbers; an infinite one counts as missing."""

    kind: Literal["number"] = "number"
    placeholders: tuple[str, ...] = ()
    """Text that stands for a missing number, such as 'unknown'; marks such as '?' do so in any column."""

    @property
    def feature_names(self) -> list[str]:
        return [self.name, *self._mark]

    def codes(self, cells: Cells) -> np.ndarray:
        """Return one number per row, NaN where it is missing."""
        values = cells.floats()
        if cells.words is not None or cells.is_date:
            _check_words(self.name, cells, values, self.placeholders, "numbers")
        return np.where(np.isinf(values), np.nan, values) if np.isinf(values).any() else values

    def encode(self, codes: np.ndarray) -> np.ndarray:
        """Return the features ``(rows, features)`` of values."""
        return self._with_mark(codes)


@dataclass(frozen=True, kw_only=True)
class DateColumn(FilledColumn):
    """A column of dates: days since 1970, and sine and cosine of the cycles in which they vary, which are 0 for a missing date.

    Times with a zone are taken in UTC.
    """

    kind: Literal["date"] = "date"
    order: DateOrder = "ymd"
    cycles: tuple[Cycle, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        return [
            self.name,
            *(f"{self.name} {cycle} {function}" for cycle in self.cycles for function in ("sin", "cos")),
            *self._mark,
        ]

    def codes(self, cells: Cells) -> np.ndarray:
        """Return days since 1970, NaN where a date is missing."""
        days = cells.days(self.order)
        if not cells.is_date:
            _check_words(self.name, cells, days, (), "dates such as 2024-05-31")
        return days

    def encode(self, codes: np.ndarray) -> np.ndarray:
        """Return the features ``(rows, features)`` of days."""
        angles = [2.0 * np.pi * _phase(codes, cycle) for cycle in self.cycles]
        zero = None if self.fill is None else 0.0
        return self._with_mark(codes, *(_filled(function(angle), zero) for angle in angles for function in (np.sin, np.cos)))


def cycles_of(days: np.ndarray) -> tuple[Cycle, ...]:
    """Return the cycles in which dates vary; the season counts from half a year on."""
    days = days[~np.isnan(days)]
    varies = {
        "year": np.ptp(days) >= _SHORTEST_SEASON,
        "week": np.ptp(np.floor(days) % 7) > 0,
        "day": np.ptp(days % 1) > 0,
    }
    return tuple(cycle for cycle, found in varies.items() if found)  # type: ignore[misc]


def _phase(days: np.ndarray, cycle: Cycle) -> np.ndarray:
    """Return where in the cycle each moment is, from 0 to 1, NaN for NaN."""
    if cycle != "year":
        return np.asarray((days / 7.0 if cycle == "week" else days) % 1.0)
    known = np.nan_to_num(np.floor(days)).astype("M8[D]")
    starts = known.astype("M8[Y]")
    lengths = (starts + 1).astype("M8[D]") - starts.astype("M8[D]")
    return np.asarray((days - starts.astype("M8[D]").astype(np.float64)) / lengths.astype(np.float64))


def _filled(values: np.ndarray, fill: float | None) -> np.ndarray:
    return values if fill is None else np.where(np.isnan(values), fill, values)


def _median(values: np.ndarray, weight: np.ndarray) -> float:
    """Return the median of known values, 0 without any; a weight of two counts as two values."""
    counted = ~np.isnan(values) & (weight > 0)
    if not counted.any():
        return 0.0
    values, weight = values[counted], weight[counted]
    if np.all(weight == weight[0]):
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    low, high = (np.searchsorted(total, total[-1] / 2, side=side) for side in ("left", "right"))
    return float((values[order[low]] + values[order[high]]) / 2)


def _check_words(name: str, cells: Cells, values: np.ndarray, placeholders: tuple[str, ...], expected: str) -> None:
    """Raise an error if a cell is not empty, but NaN in ``values`` and no mark of a missing one."""
    unread = np.isnan(values)
    if not unread.any():
        return
    text = cells.as_text()
    words = text.words or ()
    bad = np.array([word not in placeholders and not is_missing_mark(word) for word in words] + [False])
    rows = np.flatnonzero(unread & bad[text.values])
    if len(rows):
        raise InputError(f"column {name!r} holds {words[text.values[rows[0]]]!r} in row {rows[0] + 1}; expected {expected}")
