"""The cells of a table as numbers, days or words, whatever they came from.

Frames are those of pandas or polars; neither library is imported here, nor needed for the other's frames.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from gar.errors import InputError, quoted

MISSING_MARKS = frozenset(["?", "-", "--", ".", "*", "na", "n/a", "#n/a", "nan", "null", "none", "#div/0!", "#num!", "#value!"])
"""What programs and people write where a number is missing, in lower case."""

DateOrder = Literal["ymd", "dmy", "mdy"]
"""The order of year, month and day in text; the first is that of ISO 8601, which is always understood."""

_BOOLEANS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_INTEGRAL = re.compile(r"([+-]?\d+)\.0+")
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?(?:[T ]\s*(\S.*))?")
_YEAR_LAST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?:[T ]\s*(\S.*))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400


class Cells(NamedTuple):
    """The cells of one column ``(rows,)``: numbers (NaN if missing), dates (NaT), or text.

    Of text, ``values`` has the index of each cell's word among the different ``words``, and -1 for a missing cell.
    """

    values: np.ndarray
    words: Sequence[str] | None = None
    is_category: bool = False

    @property
    def is_date(self) -> bool:
        return self.values.dtype.kind == "M"

    def take(self, rows: np.ndarray) -> "Cells":
        """Return the cells of some rows, given by numbers or by a mask."""
        return self._replace(values=self.values[rows])

    def floats(self) -> np.ndarray:
        """Return the cells as numbers, NaN where they are none; True is 1 and False 0."""
        if self.words is not None:
            return self.of_words([_float(word) for word in self.words])
        return np.full(len(self.values), np.nan) if self.is_date else np.asarray(self.values, dtype=np.float64)

    def days(self, order: DateOrder = "ymd") -> np.ndarray:
        """Return dates as days since 1970, NaN where a cell is none; numbers are no dates."""
        if self.words is not None:
            return self.of_words([_days(word, order) for word in self.words])
        if not self.is_date:
            return np.full(len(self.values), np.nan)
        return (self.values.astype("M8[us]") - np.datetime64(0, "us")) / np.timedelta64(1, "D")

    def as_text(self) -> "Cells":
        """Return the cells as text; whole numbers are written without a point."""
        if self.words is not None:
            return self
        missing = np.isnat(self.values) if self.is_date else np.isnan(self.floats())
        different, index = np.unique(self.values[~missing], return_inverse=True)
        values = np.full(len(self.values), -1)
        values[~missing] = index.reshape(-1)
        return Cells(values, [canonical(str(value)) for value in different], self.is_category)

    def of_words(self, values: Sequence[float]) -> np.ndarray:
        """Return for each cell of text the value of its word, NaN for a missing cell."""
        return np.asarray(np.array([*values, np.nan])[self.values])  # the index -1 of a missing cell is that of the last value

    def counts(self) -> np.ndarray:
        """Return the number of cells of each word."""
        return np.bincount(self.values[self.values >= 0], minlength=len(self.words or ()))


Columns = Mapping[str, Cells]
"""The columns of a table by name."""


def checked_table(estimator: Any, table: Any, *, reset: bool) -> Columns:
    """Return the columns of a frame of pandas or polars, or of numbers; infinite numbers are an error in arrays alone.

    With ``reset``, the estimator gets ``n_features_in_`` and ``feature_names_in_``; without it, the table must agree with them, and
    the error names columns that are missing or not expected.
    """
    fewest = 2 if reset else 1
    if not is_frame(table):
        return columns_of(
            validate_data(estimator, table, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=fewest, reset=reset)
        )
    validate_data(estimator, table, skip_check_array=True, reset=reset)
    if len(table) < fewest:
        raise InputError(f"the table has {len(table)} rows; {type(estimator).__name__} needs a minimum of {fewest}")
    return columns_of(table)


def is_frame(table: Any) -> bool:
    """Return True for a frame of pandas or polars."""
    return hasattr(table, "columns") and hasattr(table, "dtypes") and not hasattr(table, "collect")


def columns_of(table: Any, names: Iterable[str] | None = None) -> Columns:
    """Return the columns of a frame, or of numbers ``(rows, columns)``, which are called x0, x1, ...; those of ``names`` or all.

    Columns of a frame are called so, too, if their names are numbers.
    """
    if isinstance(table, Mapping):
        return table
    if not is_frame(table):
        return {f"x{index}": Cells(column) for index, column in enumerate(np.asarray(table).T)}
    titles = _titles(list(table.columns))
    if len(set(titles)) < len(titles):
        twice = dict.fromkeys(title for title in titles if titles.count(title) > 1)
        raise InputError(f"several columns are called {quoted(twice)}; columns must have different names: rename them")
    wanted = None if names is None else set(names)
    used = [(index, title) for index, title in enumerate(titles) if wanted is None or title in wanted]
    if hasattr(table, "iloc"):
        return {title: pandas_cells(table.iloc[:, index]) for index, title in used}
    return {title: _polars_cells(table[title]) for _, title in used}


def pandas_cells(series: Any) -> Cells:
    """Return the cells of a series of pandas; durations are days."""
    kind = series.dtype.kind
    if kind in "fiub":
        is_plain = isinstance(series.dtype, np.dtype)
        return Cells(series.to_numpy() if is_plain else series.to_numpy(np.float64, na_value=np.nan))
    if kind == "M":
        return Cells(series.to_numpy("M8[us]"))
    if kind == "m":
        return Cells(series.to_numpy("m8[us]") / np.timedelta64(1, "D"))
    return text_cells(series.astype(object).tolist(), is_category=hasattr(series, "cat"))


def _polars_cells(series: Any) -> Cells:
    kind = type(series.dtype).__name__
    if series.dtype.is_numeric() or kind == "Boolean":
        return Cells(series.cast(float).to_numpy())
    if kind in ("Date", "Datetime"):
        return Cells(series.to_numpy().astype("M8[us]"))
    if kind == "Duration":
        return Cells(series.to_numpy() / np.timedelta64(1, "D"))
    return text_cells(series.to_list(), is_category=kind in ("Categorical", "Enum"))


def _titles(names: list[Any]) -> list[str]:
    if any(isinstance(name, str) for name in names) and not all(isinstance(name, str) for name in names):
        raise InputError("some names of columns are text and some are not; columns must have names that are text: rename them")
    return [name if isinstance(name, str) else f"x{index}" for index, name in enumerate(names)]


def text_cells(cells: Sequence[Any], *, is_category: bool = False) -> Cells:
    """Return cells of any type as text without surrounding spaces; a cell of which nothing is left is missing."""
    if not set(map(type, cells)) <= {str, type(None)}:
        cells = [None if _is_missing(cell) else str(cell) for cell in cells]
    index: dict[str, int] = {}
    codes = {None: -1}
    for cell in dict.fromkeys(cells):  # parsed once for all rows that hold it
        word = (cell or "").strip()
        codes[cell] = index.setdefault(word, len(index)) if word else -1
    return Cells(np.fromiter(map(codes.__getitem__, cells), np.int64, len(cells)), list(index), is_category)


def is_missing_mark(word: str) -> bool:
    """Return True if a text marks a missing number, as '?' does."""
    return word.lower() in MISSING_MARKS


def canonical(word: str) -> str:
    """Return one spelling for a category that files spell in several ways: 1.0 as 1, TRUE as True."""
    integral = _INTEGRAL.fullmatch(word)
    return integral[1] if integral else word.capitalize() if word in _BOOLEANS else word


def date_order(words: Iterable[str]) -> DateOrder | None:
    """Return the order in which all of these texts are dates, None if there is none or several: 1/2/2024 may be either."""
    orders = [order for order in ("ymd", "dmy", "mdy") if not any(np.isnan(_days(word, order)) for word in words)]
    return orders[0] if len(orders) == 1 or orders[:1] == ["ymd"] else None  # type: ignore[return-value]


def _is_missing(cell: Any) -> bool:
    try:
        return cell is None or bool(cell != cell)
    except TypeError:  # a comparison with pandas.NA is neither true nor false
        return True
    except ValueError:  # an array
        return False


def _float(word: str) -> float:
    if word in _BOOLEANS:
        return _BOOLEANS[word]
    try:
        return np.nan if "_" in word else float(word)  # Python would read 1_000
    except ValueError:
        return np.nan


def _days(word: str, order: DateOrder) -> float:
    found = _YEAR_FIRST.fullmatch(word)
    if found:
        year, month, day, clock = found[1], found[2], found[3] or "1", found[4]
    elif order != "ymd" and (found := _YEAR_LAST.fullmatch(word)):
        first, second, year, clock = found.groups()
        day, month = (first, second) if order == "dmy" else (second, first)
    else:
        return np.nan
    try:
        at = time.fromisoformat(clock) if clock else time()
        moment = datetime(int(year), int(month), int(day), at.hour, at.minute, at.second, at.microsecond, at.tzinfo or UTC)
    except (ValueError, OverflowError):
        return np.nan
    return (moment - _EPOCH).total_seconds() / _DAY
