"""Encode a table of numbers, text and dates as numbers, fitted on training rows alone.

Column types are inferred once, from the features of the whole table; labels are not used. Fill values of missing numbers are
fitted in each fold, on its training rows.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.api import types

from gar.app.tables.columns import (
    NUMERIC_SHARE,
    ColumnNotes,
    first_few,
    is_missing_mark,
    is_numeric,
    quoted,
    to_days,
    to_floats,
    to_text,
    unparsed_text,
)
from gar.errors import InputError

if TYPE_CHECKING:
    from gar.stack import StackData

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

_ID_SHARE = 0.5
_STARTS_WITH_DIGIT = r"[+\-$€£]?\d"
_BOOLEANS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_INTEGRAL = re.compile(r"([+-]?\d+)\.0+")


@dataclass(frozen=True, kw_only=True)
class NumericColumn:
    """A column of numbers, or of dates as days since 1970.

    A missing value becomes ``fill``; with ``marked``, an indicator column holds 1 where a value is missing.
    """

    name: str
    kind: Literal["number"] = "number"
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
    kind: Literal["category"] = "category"
    known: tuple[str, ...]
    other: bool = False
    missing: bool = False

    def __post_init__(self) -> None:
        if len(set(self.known)) < len(self.known):
            raise InputError(f"column {self.name!r} has a category twice; expected different ones")

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


def _canonical(word: str) -> str:
    """Return one spelling for a category that files spell in several ways: 1.0 as 1, TRUE as True."""
    integral = _INTEGRAL.fullmatch(word)
    return integral[1] if integral else word.capitalize() if word in _BOOLEANS else word


EncodedColumn = NumericColumn | CategoricalColumn


@dataclass(frozen=True)
class Encoder:
    """Encoding of a table's columns as numbers. It is plain data: ``dataclasses.asdict`` describes all of it.

    Attributes:
        columns: the encoding of each column that is used.
        notes: for the report: columns that are left out, converted or filled.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"size": [1.0, None, 4.0], "colour": ["red", "blue", "red"]})
        >>> encoder = Encoder.infer(frame).fit(frame)
        >>> encoder.feature_names
        ['size', 'size is missing', 'colour=blue', 'colour=red']
        >>> encoder.transform(frame)[1]
        array([2.5, 1. , 1. , 0. ])
    """

    columns: tuple[EncodedColumn, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not self.feature_names or len(set(names)) < len(names):
            raise InputError(f"the columns of an encoder are {quoted(names)}; expected one or more of different names")

    @staticmethod
    def infer(frame: pd.DataFrame, *, max_categories: int = 20) -> "Encoder":
        """Infer the type of each column.

        Args:
            frame: the features, without labels.
            max_categories: number of categories of a text column that get a column each; the rarer ones share one.
        """
        if max_categories < 1:
            raise InputError(f"max_categories={max_categories}; expected at least 1")
        if len(frame) == 0:
            raise InputError("the table has no rows; expected at least one")
        if not frame.columns.is_unique or not all(isinstance(name, str) for name in frame.columns):
            raise InputError("columns must have different names that are text; rename them, or read the table with read_table")
        notes = ColumnNotes()
        columns = [_infer(frame[name], name, max_categories, notes) for name in frame.columns]
        used = tuple(column for column in columns if column is not None)
        if not used:
            reasons = "; ".join(notes.lines()) or "there is none besides the targets"
            raise InputError(f"no column can be used as a feature: {reasons}")
        return Encoder(used, notes.lines())

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns that :meth:`transform` returns, in their order."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def categorical_columns(self) -> tuple[CategoricalColumn, ...]:
        """The columns that hold text."""
        return tuple(column for column in self.columns if isinstance(column, CategoricalColumn))

    def fit(self, frame: pd.DataFrame) -> "Encoder":
        """Return a copy that fills missing numbers with the medians of these rows."""
        self._check(frame)
        return replace(self, columns=tuple(column.fit(frame[column.name]) for column in self.columns))

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Return finite numbers ``(rows, features)``; columns that the encoder does not know are ignored."""
        self._check(frame)
        return np.hstack([column.transform(frame[column.name]) for column in self.columns])

    def unknown_categories(self, frame: pd.DataFrame) -> tuple[str, ...]:
        """Return one line for each column with unknown categories: in how many rows, and an example."""
        self._check(frame)
        unknown = [(column, column.unknown(frame[column.name])) for column in self.categorical_columns]
        return tuple(
            f"column {column.name!r} holds a category that {'is rare or new to' if column.other else 'is not known to'} the model "
            f"in {len(words)} of {len(frame)} rows, such as {words.iloc[0]!r}"
            for column, words in unknown
            if len(words)
        )

    def has_missing_numbers(self, frame: pd.DataFrame) -> bool:
        """Return True if a number is missing in any row, so that :meth:`fit` matters."""
        numeric = (column for column in self.columns if isinstance(column, NumericColumn))
        return any(np.isnan(column.values(frame[column.name])).any() for column in numeric)

    def _check(self, frame: pd.DataFrame) -> None:
        missing = [column.name for column in self.columns if column.name not in frame.columns]
        if missing:
            raise InputError(f"the table lacks {quoted(missing)}; it has {quoted(frame.columns)}: every feature must be there")


def _infer(series: pd.Series, name: str, max_categories: int, notes: ColumnNotes) -> EncodedColumn | None:
    """Return the encoding of a column, or None if it is of no use; remarks about it are added to the notes."""
    if is_numeric(series):
        return _numeric(NumericColumn(name=name), series, notes)
    if types.is_datetime64_any_dtype(series.dtype):
        return _numeric(NumericColumn(name=name, unit="day"), series, notes)
    words = to_text(series).dropna()
    if isinstance(series.dtype, pd.CategoricalDtype) or len(words) == 0:
        return _categorical(name, words, len(series), max_categories, notes)
    parsed = np.isfinite(to_floats(words))
    informative = ~is_missing_mark(words)  # a '?' is evidence neither of numbers nor of text
    if informative.any() and parsed.sum() / informative.sum() >= NUMERIC_SHARE:
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
        notes.add(_TEXT_AMONG_NUMBERS, f"{column.name} ({first_few(column.placeholders)})")
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


class EncodedFolds(NamedTuple):
    """A table as numbers, for all folds.

    ``data`` is what networks are trained on, ``encoders`` has one fitted encoder per fold, ``rows`` the row of the original
    table for each row of ``data``.
    """

    data: "StackData"
    encoders: list[Encoder]
    rows: np.ndarray


def encode_folds(
    encoder: Encoder, frame: pd.DataFrame, y: np.ndarray, folds: Sequence[Sequence[ArrayLike]], *, scale_labels: bool = True
) -> EncodedFolds:
    """Encode and standardise every fold with statistics of its own training rows.

    Args:
        encoder: inferred from this table.
        frame: the features.
        y: labels ``(rows, targets)``, NaN where one is missing.
        folds: row numbers ``(train, valid, test)`` of each fold.
        scale_labels: standardise labels too, and keep predictions near their range.
    """
    from gar.stack import StackData

    parts = [tuple(np.asarray(part, dtype=np.int64) for part in fold) for fold in folds]
    encoders = [encoder.fit(frame.iloc[train]) for train, _, _ in parts]
    if encoder.has_missing_numbers(frame):  # then a row differs between folds, and is repeated for each of them
        rows = np.concatenate([row for fold in parts for row in fold])
        blocks = [fitted.transform(frame.iloc[np.concatenate(fold)]) for fitted, fold in zip(encoders, parts, strict=True)]
        x, parts = np.concatenate(blocks), _consecutive(parts)
    else:
        rows, x = np.arange(len(frame)), encoders[0].transform(frame)
    data = StackData(x, np.asarray(y)[rows], parts, scale_features=True, scale_labels=scale_labels, bound_predictions=scale_labels)
    return EncodedFolds(data, encoders, rows)


def _consecutive(parts: list[tuple[np.ndarray, ...]]) -> list[tuple[np.ndarray, ...]]:
    """Return parts of the same sizes, with rows numbered one after another."""
    ends = np.cumsum([len(part) for fold in parts for part in fold])
    pieces = iter(np.split(np.arange(ends[-1]), ends[:-1]))
    return [tuple(next(pieces) for _ in fold) for fold in parts]
