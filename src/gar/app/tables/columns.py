"""Columns of a table: how they become features or labels, and how their types are inferred.

An encoded column is plain data, so that it can be written as JSON.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from pandas.api import types

from gar.errors import InputError

_MISSING_MARKS = frozenset(["?", "-", "--", ".", "*", "na", "n/a", "#n/a", "nan", "null", "none", "#div/0!", "#num!", "#value!"])
"""What programs and people write where a number is missing, in lower case."""
_BOOLEANS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_INTEGRAL = re.compile(r"([+-]?\d+)\.0+")

_EMPTY = "left out, since no row has a value"
_CONSTANT = "left out, since all rows have the same value"
_LIKE_IDS = "left out, since nearly every row has a text of its own, as with names and ids"
_LIKE_SPOILT_NUMBERS = (
    "left out, since nearly every row has a text of its own that begins with a digit; "
    "if these are numbers, write them as 1234.5, without units, and dates as 2024-05-31"
)
_DATES = "dates converted to days since 1970"
_INFINITE = "infinite values count as missing"
_TEXT_AMONG_NUMBERS = "text among numbers counts as missing"
_FILLED = "missing numbers filled with the median of the training rows, with an indicator column"
_ONE_HOT = "text one-hot encoded, one column per category"
_RARE = "rare categories share one column"
_MISSING_TEXT = "missing text has an indicator column"

_NUMERIC_SHARE = 0.9
_ID_SHARE = 0.5
_STARTS_WITH_DIGIT = r"[+\-$€£]?\d"


@dataclass(frozen=True, kw_only=True)
class NumericColumn:
    """A column of numbers, or of dates as days since 1970.

    A missing value becomes ``fill``; with ``marked``, an indicator column holds 1 where a value is missing.
    """

    name: str
    unit: Literal["number", "day"] = "number"
    fill: float = 0.0
    marked: bool = False
    placeholders: tuple[str, ...] = ()
    """Text that stands for a missing number, such as 'unknown'; marks such as '?' do so in any column."""

    @property
    def feature_names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.marked else [self.name]

    def fit(self, series: pd.Series) -> "NumericColumn":
        """Return a copy that fills missing values with the median of these rows."""
        values = self.values(series)
        known = values[~np.isnan(values)]
        return replace(self, fill=float(np.median(known)) if len(known) else 0.0)

    def transform(self, series: pd.Series) -> np.ndarray:
        values = self.values(series)
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        return np.column_stack([filled, missing]) if self.marked else filled[:, None]

    def values(self, series: pd.Series) -> np.ndarray:
        """Return one number per row, NaN where it is missing."""
        values = to_days(series) if self.unit == "day" else to_floats(series)
        if self.unit == "day" or not is_numeric(series):
            values = self._with_booleans(values, unparsed_text(series, values))
        return np.where(np.isinf(values), np.nan, values)

    def _with_booleans(self, values: np.ndarray, words: pd.Series) -> np.ndarray:
        """Return the values with True and False as 1 and 0, which are text where a cell among them is empty."""
        words = words[~words.isin(self.placeholders) & ~is_missing_mark(words)]
        booleans = words[words.isin(list(_BOOLEANS)) & (self.unit == "number")]
        other = words.drop(booleans.index)
        if len(other):
            what = "dates such as 2024-05-31" if self.unit == "day" else "numbers"
            raise InputError(f"column {self.name!r} holds {other.iloc[0]!r} in row {other.index[0]}; expected {what}")
        values = values.copy()
        values[booleans.index.to_numpy(np.int64) - 1] = booleans.map(_BOOLEANS)
        return values


@dataclass(frozen=True, kw_only=True)
class CategoricalColumn:
    """A column of text or categories, one-hot encoded: one indicator per known category.

    ``other`` adds an indicator of all other categories, ``missing`` one of missing values. Without ``other``, an unknown
    category gives zeros only.
    """

    name: str
    known: tuple[str, ...]
    other: bool = False
    missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        extra = [(self.other, f"{self.name} is another value"), (self.missing, f"{self.name} is missing")]
        return [*(f"{self.name}={value}" for value in self.known), *(name for exists, name in extra if exists)]

    def fit(self, series: pd.Series) -> "CategoricalColumn":
        return self

    def transform(self, series: pd.Series) -> np.ndarray:
        words = to_text(series)
        missing = words.isna().to_numpy()
        codes = self._codes(series, words)
        indicators = [codes[:, None] == np.arange(len(self.known))]
        if self.other:
            indicators.append(((codes < 0) & ~missing)[:, None])
        if self.missing:
            indicators.append(missing[:, None])
        return np.hstack(indicators).astype(np.float64)

    def unknown(self, series: pd.Series) -> pd.Series:
        """Return the cells, as text, whose category has no indicator of its own."""
        words = to_text(series)
        return words[self._codes(series, words) < 0].dropna()

    def _codes(self, series: pd.Series, words: pd.Series) -> np.ndarray:
        """Return the index of each cell's category among the known ones, or -1."""
        codes = np.array(pd.Index(self.known, dtype=object).get_indexer(pd.Index(words, dtype=object)))
        unknown = (codes < 0) & words.notna().to_numpy()
        if self.other:  # unknown text may be a rare category of the first table, in which 1.0 was another category than 1
            unknown &= np.array([not isinstance(value, str) for value in series], dtype=bool)
        if unknown.any():
            indices = {_canonical(value): index for index, value in reversed(list(enumerate(self.known)))}
            codes[unknown] = [indices.get(_canonical(word), -1) for word in words[unknown]]
        return codes


EncodedColumn = NumericColumn | CategoricalColumn


class ColumnNotes(dict[str, list[str]]):
    """Remarks about columns for the report: each remark with the columns that it applies to."""

    def add(self, remark: str, name: str) -> None:
        self.setdefault(remark, []).append(name)

    def lines(self) -> tuple[str, ...]:
        """Return one line for each remark, with the first few columns."""
        return tuple(
            f"{remark} ({len(names)} {'column' if len(names) == 1 else 'columns'}): {_first_few(names)}"
            for remark, names in self.items()
        )


def infer_columns(frame: pd.DataFrame, max_categories: int) -> tuple[tuple[EncodedColumn, ...], tuple[str, ...]]:
    """Return the encoding of each useful column, and notes about columns that are left out or converted."""
    notes = ColumnNotes()
    inferred = [_infer(frame[name], name, max_categories, notes) for name in frame.columns]
    return tuple(column for column in inferred if column is not None), notes.lines()


def _infer(series: pd.Series, name: str, max_categories: int, notes: ColumnNotes) -> EncodedColumn | None:
    if is_numeric(series):
        return _numeric(NumericColumn(name=name), series, notes)
    if types.is_datetime64_any_dtype(series.dtype):
        return _numeric(NumericColumn(name=name, unit="day"), series, notes)
    words = to_text(series).dropna()
    if isinstance(series.dtype, pd.CategoricalDtype) or len(words) == 0:
        return _categorical(name, words, len(series), max_categories, notes)
    parsed = np.isfinite(to_floats(words))
    informative = ~is_missing_mark(words)  # a '?' is evidence neither of numbers nor of text
    if informative.any() and parsed.sum() / informative.sum() >= _NUMERIC_SHARE:
        return _numeric(NumericColumn(name=name, placeholders=tuple(sorted(set(words[~parsed])))), series, notes)
    if not np.isnan(to_days(words)).any():
        return _numeric(NumericColumn(name=name, unit="day"), series, notes)
    return _categorical(name, words, len(series), max_categories, notes)


def _numeric(column: NumericColumn, series: pd.Series, notes: ColumnNotes) -> NumericColumn | None:
    values = column.values(series)
    missing = np.isnan(values)
    if missing.all() or (not missing.any() and values.min() == values.max()):
        notes.add(_EMPTY if missing.all() else _CONSTANT, column.name)
        return None
    if column.unit == "day":
        notes.add(_DATES, column.name)
    elif np.isinf(to_floats(series)).any():
        notes.add(_INFINITE, column.name)
    if column.placeholders:
        notes.add(_TEXT_AMONG_NUMBERS, f"{column.name} ({_first_few(column.placeholders)})")
    if missing.any():
        notes.add(_FILLED, column.name)
    return replace(column, marked=bool(missing.any()))


def _categorical(name: str, words: pd.Series, rows: int, max_categories: int, notes: ColumnNotes) -> CategoricalColumn | None:
    counts, missing = Counter(words), len(words) < rows
    if not counts or (len(counts) == 1 and not missing):
        notes.add(_CONSTANT if counts else _EMPTY, name)
        return None
    other = len(counts) > max_categories
    if other and len(counts) > _ID_SHARE * len(words):
        notes.add(_LIKE_SPOILT_NUMBERS if words.str.match(_STARTS_WITH_DIGIT).mean() > 0.5 else _LIKE_IDS, name)
        return None
    for remark, applies in ((_ONE_HOT, True), (_RARE, other), (_MISSING_TEXT, missing)):
        if applies:
            notes.add(remark, name)
    most_frequent = sorted(counts, key=lambda value: (-counts[value], value))[:max_categories]
    return CategoricalColumn(name=name, known=tuple(sorted(most_frequent)), other=other, missing=missing)


def target_values(frame: pd.DataFrame, targets: Sequence[str]) -> np.ndarray:
    """Return labels ``(rows, targets)``, NaN where one is missing.

    Example:
        >>> import pandas as pd
        >>> target_values(pd.DataFrame({"price": [3, None]}), ["price"])
        array([[ 3.],
               [nan]])
    """
    if isinstance(targets, str) or not targets or len(set(targets)) != len(targets):
        raise InputError(f"targets={targets!r}; expected a list of different column names")
    unknown = [name for name in targets if name not in frame.columns]
    if unknown:
        raise InputError(f"the table has no column {quoted(unknown)}; it has {quoted(frame.columns)}")
    return np.column_stack([_values_of_target(frame[name], name) for name in targets])


def _values_of_target(series: pd.Series, name: str) -> np.ndarray:
    values = to_floats(series)
    words = unparsed_text(series, np.where(np.isinf(values), np.nan, values))
    if len(words):
        raise InputError(
            f"target {name!r} holds {words.iloc[0]!r} in row {words.index[0]}; expected numbers, or nothing where unknown"
        )
    if np.isnan(values).all():
        raise InputError(f"target {name!r} has no value in any row; choose another column")
    return values


def to_text(series: pd.Series) -> pd.Series:
    """Return cells as text without surrounding spaces, None where nothing is left."""
    return series.astype(object).map(lambda value: str(value).strip() or None, na_action="ignore")


def to_floats(series: pd.Series) -> np.ndarray:
    """Return cells as floats, durations in days, NaN where a cell is not a number."""
    kind = series.dtype.kind
    if isinstance(series.dtype, np.dtype) and kind in "fiub":
        return np.asarray(series, dtype=np.float64)  # the usual case; a table may have thousands of columns
    if kind == "M":
        return np.full(len(series), np.nan)
    if kind == "m":
        series = series / pd.Timedelta(days=1)
    elif not is_numeric(series):
        series = pd.to_numeric(to_text(series), errors="coerce")
    return np.asarray(series.to_numpy(np.float64, na_value=np.nan))


def to_days(series: pd.Series) -> np.ndarray:
    """Return dates as days since 1970, NaN where a cell is not a date; numbers are not dates."""
    if is_numeric(series):
        return np.full(len(series), np.nan)
    dates = series if types.is_datetime64_any_dtype(series.dtype) else to_text(series)
    dates = pd.to_datetime(dates, errors="coerce", format="ISO8601", utc=True)
    days = (dates - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(days=1)
    return np.asarray(days.to_numpy(np.float64, na_value=np.nan))


def is_numeric(series: pd.Series) -> bool:
    """Return True if the dtype is real, boolean or a duration."""
    if isinstance(series.dtype, np.dtype):
        return series.dtype.kind in "fiubm"
    return bool(types.is_numeric_dtype(series.dtype)) and not types.is_complex_dtype(series.dtype)


def is_missing_mark(words: pd.Series) -> pd.Series:
    """Return which texts mark a missing number, as '?' does."""
    return words.map(lambda word: word.lower() in _MISSING_MARKS).astype(bool)


def unparsed_text(series: pd.Series, values: np.ndarray) -> pd.Series:
    """Return the text of cells that are not empty, but NaN in ``values``; the index is the row number, from 1."""
    rows = np.flatnonzero(np.isnan(values))
    return to_text(series.iloc[rows].set_axis(rows + 1)).dropna()


def _canonical(word: str) -> str:
    """Return one spelling for a category that files spell in several ways: 1.0 as 1, TRUE as True."""
    integral = _INTEGRAL.fullmatch(word)
    return integral[1] if integral else word.capitalize() if word in _BOOLEANS else word


def quoted(names: Iterable[object]) -> str:
    """Return at most eight names in quotation marks, and the number of the others."""
    return _first_few([repr(name) for name in names], limit=8)


def _first_few(names: Sequence[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
