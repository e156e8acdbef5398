"""What each column of an unknown table is, and what to tell the reader about it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gar.app.tables.columns import (
    CategoryColumn,
    Column,
    NumberColumn,
    days,
    holds_dates,
    holds_numbers,
    is_missing_mark,
    most_frequent,
    numbers,
    text,
)

if TYPE_CHECKING:
    import pandas as pd

_EMPTY = "left out, since no row has a value"
_CONSTANT = "left out, since all rows have the same value"
_LIKE_IDS = "left out, since nearly every row has a text of its own, as with names and ids"
_LIKE_SPOILT_NUMBERS = (
    "left out, since nearly every row has a text of its own that begins with a digit; "
    "if these are numbers, write them as 1234.5, without units, and dates as 2024-05-31"
)
_DATES = "dates turned into days since 1970"
_INFINITE = "infinite values count as missing"
_TEXT_AMONG_NUMBERS = "text among numbers counts as missing"
_FILLED = "missing numbers filled with the median of training rows, and marked in a column of their own"
_ONE_HOT = "text turned into one column per value"
_RARE = "rarer values share one column"
_MISSING_TEXT = "missing text has a column of its own"

_MOSTLY_NUMBERS = 0.9
_LIKE_IDS_SHARE = 0.5
_DIGIT_FIRST = r"[+\-$€£]?\d"
_DIGITS_SHARE = 0.5
_SHOWN = 5


class Findings(dict[str, list[str]]):
    """Columns by what was found about them."""

    def add(self, what: str, name: str) -> None:
        self.setdefault(what, []).append(name)

    def notes(self) -> tuple[str, ...]:
        """One line for each finding, with the first few columns."""
        return tuple(
            f"{what} ({len(names)} {'column' if len(names) == 1 else 'columns'}): {_some(names)}" for what, names in self.items()
        )


def plan_columns(frame: "pd.DataFrame", max_categories: int) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """What each column becomes, without those that are of no use, and notes about them."""
    findings = Findings()
    planned = [_plan(frame[name], name, max_categories, findings) for name in frame.columns]
    return tuple(column for column in planned if column is not None), findings.notes()


def _plan(series: "pd.Series", name: str, max_categories: int, findings: Findings) -> Column | None:
    import pandas as pd

    if holds_numbers(series):
        return _number(NumberColumn(name=name), series, findings)
    if holds_dates(series):
        return _number(NumberColumn(name=name, unit="day"), series, findings)
    words = text(series).dropna()
    if isinstance(series.dtype, pd.CategoricalDtype) or len(words) == 0:
        return _category(name, words, len(series), max_categories, findings)
    as_numbers = np.isfinite(numbers(words))
    meant = ~is_missing_mark(words)  # a '?' speaks neither for numbers nor for text
    if meant.any() and as_numbers.sum() / meant.sum() >= _MOSTLY_NUMBERS:
        return _number(NumberColumn(name=name, placeholders=tuple(sorted(set(words[~as_numbers])))), series, findings)
    if not np.isnan(days(words)).any():
        return _number(NumberColumn(name=name, unit="day"), series, findings)
    return _category(name, words, len(series), max_categories, findings)


def _number(column: NumberColumn, series: "pd.Series", findings: Findings) -> NumberColumn | None:
    values = column.values(series)
    gone = np.isnan(values)
    if gone.all():
        findings.add(_EMPTY, column.name)
        return None
    if not gone.any() and values.min() == values.max():
        findings.add(_CONSTANT, column.name)
        return None
    if column.unit == "day":
        findings.add(_DATES, column.name)
    elif np.isinf(numbers(series)).any():
        findings.add(_INFINITE, column.name)
    if column.placeholders:
        findings.add(_TEXT_AMONG_NUMBERS, f"{column.name} ({_some(column.placeholders)})")
    if gone.any():
        findings.add(_FILLED, column.name)
    return replace(column, marked=bool(gone.any()))


def _category(name: str, words: "pd.Series", rows: int, most: int, findings: Findings) -> CategoryColumn | None:
    distinct, gone = words.nunique(), len(words) < rows
    if distinct == 0:
        findings.add(_EMPTY, name)
        return None
    if distinct == 1 and not gone:
        findings.add(_CONSTANT, name)
        return None
    if distinct > most and distinct > _LIKE_IDS_SHARE * len(words):
        digits = words.str.match(_DIGIT_FIRST).mean() > _DIGITS_SHARE
        findings.add(_LIKE_SPOILT_NUMBERS if digits else _LIKE_IDS, name)
        return None
    findings.add(_ONE_HOT, name)
    if distinct > most:
        findings.add(_RARE, name)
    if gone:
        findings.add(_MISSING_TEXT, name)
    return CategoryColumn(name=name, known=most_frequent(list(words), most), other=distinct > most, missing=gone)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
