"""One column of a table and the numbers it becomes. Everything a column knows is plain data, so it can be written as JSON."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Unit = Literal["number", "day"]

_MISSING_MARKS = frozenset(["?", "-", "--", ".", "*", "na", "n/a", "#n/a", "nan", "null", "none", "#div/0!", "#num!", "#value!"])
"""What programs and people write where a number is missing, in small letters."""
_TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_WHOLE = re.compile(r"([+-]?\d+)\.0+")


@dataclass(frozen=True, kw_only=True)
class NumberColumn:
    """Numbers, or dates as days since 1970. A missing value becomes ``fill``, and 1 in a column of its own if ``marked``."""

    name: str
    unit: Unit = "number"
    fill: float = 0.0
    marked: bool = False
    placeholders: tuple[str, ...] = ()
    """Text that stands for a missing number, such as 'unknown'; marks such as '?' do so in any column."""

    @property
    def feature_names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.marked else [self.name]

    def fit(self, series: "pd.Series") -> "NumberColumn":
        """With the median of these rows as fill."""
        values = self.values(series)
        known = values[~np.isnan(values)]
        return replace(self, fill=float(np.median(known)) if len(known) else 0.0)

    def transform(self, series: "pd.Series") -> np.ndarray:
        values = self.values(series)
        gone = np.isnan(values)
        filled = np.where(gone, self.fill, values)
        return np.column_stack([filled, gone]) if self.marked else filled[:, None]

    def values(self, series: "pd.Series") -> np.ndarray:
        """One number per row, NaN where it is missing."""
        values = days(series) if self.unit == "day" else numbers(series)
        if self.unit == "day" or not holds_numbers(series):
            values = self._with_truths(values, unreadable(series, values))
        return np.where(np.isinf(values), np.nan, values)

    def _with_truths(self, values: np.ndarray, words: "pd.Series") -> np.ndarray:
        """True and False are 1 and 0: with a blank among them they come as text, without one as numbers."""
        words = words[~words.isin(self.placeholders) & ~is_missing_mark(words)]
        truths = words[words.isin(list(_TRUTHS)) & (self.unit == "number")]
        self._check_text(words.drop(truths.index))
        values = values.copy()
        values[truths.index.to_numpy(np.int64) - 1] = truths.map(_TRUTHS)
        return values

    def _check_text(self, strange: "pd.Series") -> None:
        if len(strange):
            what = "dates such as 2024-05-31" if self.unit == "day" else "numbers"
            raise InputError(f"column {self.name!r} holds {strange.iloc[0]!r} in row {strange.index[0]}; expected {what}")


@dataclass(frozen=True, kw_only=True)
class CategoryColumn:
    """Text or categories: one column of zeros and ones per known value, one for all ``other`` values, one for ``missing`` ones.

    Without a column for others, a value that is not known gives zeros only.
    """

    name: str
    known: tuple[str, ...]
    other: bool = False
    missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        extra = [(self.other, f"{self.name} is another value"), (self.missing, f"{self.name} is missing")]
        return [*(f"{self.name}={value}" for value in self.known), *(name for there, name in extra if there)]

    def fit(self, series: "pd.Series") -> "CategoryColumn":
        return self

    def transform(self, series: "pd.Series") -> np.ndarray:
        words = text(series)
        gone = words.isna().to_numpy()
        codes = self._codes(series, words)
        columns = [codes[:, None] == np.arange(len(self.known))]
        if self.other:
            columns.append(((codes < 0) & ~gone)[:, None])
        if self.missing:
            columns.append(gone[:, None])
        return np.hstack(columns).astype(np.float64)

    def unknown(self, series: "pd.Series") -> "pd.Series":
        """The values, as text, that have no column of their own."""
        words = text(series)
        return words[self._codes(series, words) < 0].dropna()

    def _codes(self, series: "pd.Series", words: "pd.Series") -> np.ndarray:
        """The place of each value among the known ones, or -1."""
        import pandas as pd

        codes = np.array(pd.Index(self.known, dtype=object).get_indexer(pd.Index(words, dtype=object)))
        strange = (codes < 0) & words.notna().to_numpy()
        if self.other:  # text that is not known may be a rare value of the first table, where 1.0 was another value than 1
            strange &= np.array([not isinstance(value, str) for value in series], dtype=bool)
        if strange.any():
            places = {_spelling(value): place for place, value in reversed(list(enumerate(self.known)))}
            codes[strange] = [places.get(_spelling(word), -1) for word in words[strange]]
        return codes


Column = NumberColumn | CategoryColumn


def text(series: "pd.Series") -> "pd.Series":
    """Values as text without spaces around it; None where nothing is left."""
    return series.astype(object).map(lambda value: str(value).strip() or None, na_action="ignore")


def _spelling(word: str) -> str:
    """One for a value that files spell in several ways: 1.0 is 1, and TRUE is True."""
    whole = _WHOLE.fullmatch(word)
    return whole[1] if whole else word.capitalize() if word in _TRUTHS else word


def is_missing_mark(words: "pd.Series") -> "pd.Series":
    """Which texts say that a number is missing, as '?' does."""
    return words.map(lambda word: word.lower() in _MISSING_MARKS).astype(bool)


def holds_numbers(series: "pd.Series") -> bool:
    """By its type: real numbers, booleans, durations."""
    from pandas.api import types

    if isinstance(series.dtype, np.dtype):
        return series.dtype.kind in "fiubm"
    return bool(types.is_numeric_dtype(series.dtype)) and not types.is_complex_dtype(series.dtype)


def holds_dates(series: "pd.Series") -> bool:
    """By its type."""
    from pandas.api import types

    return bool(types.is_datetime64_any_dtype(series.dtype))


def numbers(series: "pd.Series") -> np.ndarray:
    """Values as floats, durations in days, NaN for what is no number."""
    import pandas as pd

    kind = series.dtype.kind
    if isinstance(series.dtype, np.dtype) and kind in "fiub":
        return np.asarray(series, dtype=np.float64)  # the usual case; a table may have thousands of columns
    if kind == "M":
        return np.full(len(series), np.nan)
    if kind == "m":
        series = series / pd.Timedelta(days=1)
    elif not holds_numbers(series):
        series = pd.to_numeric(text(series), errors="coerce")
    return np.asarray(series.to_numpy(np.float64, na_value=np.nan))


def days(series: "pd.Series") -> np.ndarray:
    """Dates as days since 1970, NaN for what is no date; numbers are none."""
    import pandas as pd

    if holds_numbers(series):
        return np.full(len(series), np.nan)
    dates = pd.to_datetime(series if holds_dates(series) else text(series), errors="coerce", format="ISO8601", utc=True)
    since = (dates - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(days=1)
    return np.asarray(since.to_numpy(np.float64, na_value=np.nan))


def unreadable(series: "pd.Series", values: np.ndarray) -> "pd.Series":
    """What is there, but was not read as a number: its text, by the number of its row (from 1)."""
    places = np.flatnonzero(np.isnan(values))
    return text(series.iloc[places].set_axis(places + 1)).dropna()


def most_frequent(values: Sequence[str], limit: int) -> tuple[str, ...]:
    """At most ``limit`` distinct values in alphabetical order, the most frequent ones; of equal ones the first."""
    distinct, counts = np.unique(np.asarray(values, dtype=object).astype(str), return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:limit])
    return tuple(map(str, distinct[kept]))
