"""Cells of a table's columns as numbers, days or text, and remarks about columns for the report."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from pandas.api import types

from gar.errors import InputError

_MISSING_MARKS = frozenset(["?", "-", "--", ".", "*", "na", "n/a", "#n/a", "nan", "null", "none", "#div/0!", "#num!", "#value!"])
"""What programs and people write where a number is missing, in lower case."""
NUMERIC_SHARE = 0.9
"""Share of the informative cells that must be numbers, so that a column of text is read as numbers."""


class ColumnNotes(dict[str, list[str]]):
    """Remarks about columns for the report: each remark with the columns that it applies to."""

    def add(self, remark: str, name: str) -> None:
        self.setdefault(remark, []).append(name)

    def lines(self) -> tuple[str, ...]:
        """Return one line for each remark, with the first few columns."""
        return tuple(
            f"{remark} ({len(names)} {'column' if len(names) == 1 else 'columns'}): {first_few(names)}"
            for remark, names in self.items()
        )


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


def quoted(names: Iterable[object]) -> str:
    """Return at most eight names in quotation marks, the first 40 characters of each, and the number of the others."""
    return first_few([repr(str(name)[:40]) for name in names], limit=8)


def first_few(names: Sequence[str], limit: int = 5) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
