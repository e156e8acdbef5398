"""Which kind of column a column is, and remarks on that for a report."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gar.encoding.categories import CategoricalColumn, TargetColumn
from gar.encoding.cells import Cells, date_order, is_missing_mark
from gar.encoding.numbers import DateColumn, NumericColumn, cycles_of
from gar.errors import InputError, first_few, quoted

EncodedColumn = NumericColumn | DateColumn | CategoricalColumn | TargetColumn

MAX_CATEGORIES = 60
"""Number of categories up to which each has an indicator; columns of more are target encoded. See ``benchmarks/encoding.py``."""
NUMERIC_SHARE = 0.9
"""Share of the informative cells that must be numbers, so that a column of text is read as numbers."""
_MOST_NAMES, _ID_SHARE = 20, 0.5
"""A column of more different texts than these, and than this share of its rows, is taken for names or ids."""
_STARTS_WITH_DIGIT = re.compile(r"[+\-$€£]?\d")

_EMPTY = "left out, since no row has a value"
_CONSTANT = "left out, since all rows have the same value"
_LIKE_IDS = "left out, since nearly every row has a text of its own, as with names and ids"
_LIKE_SPOILT_NUMBERS = (
    "left out, since nearly every row has a text of its own that begins with a digit; "
    "if these are numbers, write them as 1234.5, without units, and dates as 2024-05-31"
)
_DATES = "dates converted to days since 1970, and to sine and cosine of season, weekday and time of day where these vary"
_INFINITE = "infinite values count as missing"
_TEXT_AMONG_NUMBERS = "text among numbers counts as missing"
_FILLED = "missing numbers filled with the median of the training rows, with an indicator column"
_ONE_HOT = "text one-hot encoded, one column per category"
_MISSING_TEXT = "missing text has an indicator column"
_TARGET = "many categories target encoded: by mean label in other training rows, and by frequency"


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


@dataclass(kw_only=True)
class Inference:
    """Infers kinds of columns, and takes notes; see :meth:`gar.encoding.Encoder.infer` for what is given."""

    categorical: Collection[str] | Literal["from_dtype"] | None
    max_categories: int
    fill: bool
    notes: ColumnNotes = field(default_factory=ColumnNotes)

    def column(self, name: str, cells: Cells) -> EncodedColumn | None:
        """Return the encoding of a column, or None if it is of no use."""
        if self._is_categorical(name, cells):
            return self._categories(name, cells.as_text())
        if cells.words is None:
            return self._dates(DateColumn(name=name), cells) if cells.is_date else self._numbers(NumericColumn(name=name), cells)
        words, counts = np.array(cells.words, dtype=object), cells.counts()
        informative = np.array([not is_missing_mark(word) for word in words], dtype=bool)  # '?' is evidence of nothing
        numbers = np.isfinite(Cells(np.arange(len(words)), cells.words).floats())
        if informative.any() and counts[numbers].sum() >= NUMERIC_SHARE * counts[informative].sum():
            return self._numbers(NumericColumn(name=name, placeholders=tuple(sorted(words[~numbers]))), cells)
        order = date_order(words[informative]) if informative.any() else None
        return self._categories(name, cells) if order is None else self._dates(DateColumn(name=name, order=order), cells)

    def _is_categorical(self, name: str, cells: Cells) -> bool:
        return cells.is_category if self.categorical == "from_dtype" else name in (self.categorical or ())

    def _numbers(self, column: NumericColumn, cells: Cells) -> NumericColumn | None:
        codes = column.codes(cells)
        if not self._is_useful(column.name, codes):
            return None
        if np.isinf(cells.floats()).any():
            self.notes.add(_INFINITE, column.name)
        if column.placeholders:
            self.notes.add(_TEXT_AMONG_NUMBERS, f"{column.name} ({first_few(column.placeholders)})")
        return replace(column, **self._gaps(column.name, codes))

    def _dates(self, column: DateColumn, cells: Cells) -> DateColumn | None:
        codes = column.codes(cells)
        if not self._is_useful(column.name, codes):
            return None
        self.notes.add(_DATES, column.name)
        return replace(column, cycles=cycles_of(codes), **self._gaps(column.name, codes))

    def _is_useful(self, name: str, codes: np.ndarray) -> bool:
        missing = np.isnan(codes)
        if not missing.all() and (missing.any() or codes.min() < codes.max()):
            return True
        self.notes.add(_EMPTY if missing.all() else _CONSTANT, name)
        return False

    def _gaps(self, name: str, codes: np.ndarray) -> dict[str, Any]:
        """Return what a column does about missing values."""
        if not self.fill:
            return {"fill": None}
        marked = bool(np.isnan(codes).any())
        if marked:
            self.notes.add(_FILLED, name)
        return {"marked": marked}

    def _categories(self, name: str, cells: Cells) -> CategoricalColumn | TargetColumn | None:
        words, counts = cells.words or (), cells.counts()
        known = tuple(sorted(word for word, count in zip(words, counts, strict=True) if count))
        missing = bool((cells.values < 0).any())
        if not known or (len(known) == 1 and not missing):
            self.notes.add(_CONSTANT if known else _EMPTY, name)
            return None
        if len(known) > max(min(_MOST_NAMES, self.max_categories), _ID_SHARE * counts.sum()):
            digits = sum(_STARTS_WITH_DIGIT.match(word) is not None for word in known) > len(known) / 2
            self.notes.add(_LIKE_SPOILT_NUMBERS if digits else _LIKE_IDS, name)
            return None
        if len(known) > self.max_categories:
            self.notes.add(_TARGET, name)
            return TargetColumn(name=name, known=known)
        self.notes.add(_ONE_HOT, name)
        if missing:
            self.notes.add(_MISSING_TEXT, name)
        return CategoricalColumn(name=name, known=known, missing=missing)


def categorical_names(given: Any, names: list[str]) -> Collection[str] | Literal["from_dtype"] | None:
    """Return the names of columns that are given by name, by index, or by a mask; ``"from_dtype"`` and None stay as they are."""
    if given is None or (isinstance(given, str) and given == "from_dtype"):
        return None if given is None else "from_dtype"
    values: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [None]
    if all(isinstance(value, str) for value in values):
        found = values
    elif all(isinstance(value, bool | np.bool_) for value in values) and len(values) == len(names):
        found = [name for name, chosen in zip(names, values, strict=True) if chosen]
    elif all(type(value) is not bool and isinstance(value, int | np.integer) and 0 <= value < len(names) for value in values):
        found = [names[value] for value in values]
    else:
        raise InputError(
            f"categorical_features={given!r}; expected 'from_dtype', None, names of columns, indices from 0 to {len(names) - 1}, "
            f"or a mask of {len(names)} values"
        )
    if unknown := [name for name in found if name not in names]:
        raise InputError(f"categorical_features names {quoted(unknown)}; the table has {quoted(names)}")
    return found
