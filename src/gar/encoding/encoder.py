"""The encoder: a table of numbers, text and dates as numbers, in two steps.

First every cell becomes one number, its code: a value, days since 1970, or the index of a category. That needs no training rows.
Then codes become features, with medians and mean labels of training rows. So folds, weights and equal rows concern arrays alone.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gar.encoding.categories import PARTS, CategoricalColumn, TargetColumn
from gar.encoding.distinct import sorted_distinct
from gar.encoding.frames import Columns, columns_of
from gar.encoding.inference import MAX_CATEGORIES, EncodedColumn, Inference
from gar.encoding.notes import quoted
from gar.encoding.numbers import NumericColumn
from gar.errors import InputError


@dataclass(frozen=True)
class Encoder:
    """Encoding of a table's columns as numbers. It is plain data: ``dataclasses.asdict`` describes all of it.

    Attributes:
        columns: the encoding of each column that is used.
        notes: for the report: columns that are left out, converted or filled.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"size": [1.0, None, 4.0], "colour": ["red", "blue", "red"]})
        >>> encoder = Encoder.infer(frame)
        >>> encoder = encoder.fit(encoder.codes(frame), np.array([[1.0], [2.0], [3.0]]))
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
    def infer(
        table: Any,
        *,
        categorical: Collection[str] | Literal["from_dtype"] | None = "from_dtype",
        max_categories: int = MAX_CATEGORIES,
        fill: bool = True,
    ) -> "Encoder":
        """Infer the kind of each column from the features of a whole table, without labels.

        Args:
            table: a frame of pandas or polars, numbers ``(rows, columns)``, or :data:`gar.encoding.Columns`.
            categorical: names of columns that hold categories, whatever their type. ``"from_dtype"`` are those of a category type,
                None are none. Text that is neither numbers nor dates is categories in any case.
            max_categories: number of categories up to which each has an indicator; columns of more are target encoded.
            fill: fill missing numbers and mark them; False leaves them NaN.
        """
        if max_categories < 1:
            raise InputError(f"max_categories={max_categories}; expected at least 1")
        columns = columns_of(table)
        if columns and len(next(iter(columns.values())).values) == 0:
            raise InputError("the table has no rows; expected at least one")
        inference = Inference(categorical=categorical, max_categories=max_categories, fill=fill)
        used = tuple(column for name, cells in columns.items() if (column := inference.column(name, cells)) is not None)
        if not used:
            reasons = "; ".join(inference.notes.lines()) or "there is none besides the targets"
            raise InputError(f"no column can be used as a feature: {reasons}")
        return Encoder(used, inference.notes.lines())

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns that :meth:`transform` returns, in their order."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def categorical_columns(self) -> tuple[CategoricalColumn | TargetColumn, ...]:
        """The columns that hold categories."""
        return tuple(column for column in self.columns if isinstance(column, CategoricalColumn | TargetColumn))

    def codes(self, table: Any) -> np.ndarray:
        """Return one number ``(rows, columns)`` for each cell of the columns that are used, NaN where it is missing."""
        columns = self._columns_of(table)
        return np.column_stack([column.codes(columns[column.name]) for column in self.columns])

    def depends_on_rows(self, codes: np.ndarray) -> bool:
        """Return True if features of these rows depend on the rows that the encoder is fitted to."""
        return any(column.depends_on_rows(codes[:, index]) for index, column in enumerate(self.columns))

    def fit(self, codes: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> "Encoder":
        """Return a copy with the medians and mean labels of training rows.

        Args:
            codes: of the training rows, from :meth:`codes`.
            y: their labels ``(rows, targets)``, NaN where one is missing.
            weight: how often each row counts, ``(rows,)``.
        """
        counts = np.ones(len(codes)) if weight is None else weight
        return replace(self, columns=tuple(column.fit(codes[:, index], y, counts) for index, column in enumerate(self.columns)))

    def fit_encode(self, codes: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> tuple["Encoder", np.ndarray]:
        """Return what :meth:`fit` does, and features of the training rows, in which no row's own label is contained."""
        counts = np.ones(len(codes)) if weight is None else weight
        fitted = self.fit(codes, y, counts)
        part = _parts(codes, y) if any(isinstance(column, TargetColumn) for column in self.columns) else np.empty(0)

        def features(column: EncodedColumn, codes: np.ndarray) -> np.ndarray:
            return column.fit_encode(codes, y, counts, part) if isinstance(column, TargetColumn) else column.encode(codes)

        return fitted, fitted._joined(codes, features)

    def encode(self, codes: np.ndarray) -> np.ndarray:
        """Return the features ``(rows, features)`` of codes: numbers without gaps are returned as they are, not copied."""
        if all(isinstance(column, NumericColumn) and not column.marked for column in self.columns) and not np.isnan(codes).any():
            return codes
        return self._joined(codes, lambda column, codes: column.encode(codes))

    def _joined(self, codes: np.ndarray, features: Callable[[EncodedColumn, np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the features of all columns side by side, with no more than those of one column in memory twice."""
        ends = np.cumsum([len(column.feature_names) for column in self.columns])
        joined = np.empty((len(codes), ends[-1]))
        for index, (column, end) in enumerate(zip(self.columns, ends, strict=True)):
            joined[:, end - len(column.feature_names) : end] = features(column, codes[:, index])
        return joined

    def transform(self, table: Any) -> np.ndarray:
        """Return features ``(rows, features)``; columns that the encoder does not know are ignored."""
        return self.encode(self.codes(table))

    def unknown_categories(self, table: Any) -> tuple[str, ...]:
        """Return one line for each column with unknown categories: in how many rows, and an example."""
        columns = self._columns_of(table)
        found = [(column, columns[column.name], column.unknown(columns[column.name])) for column in self.categorical_columns]
        return tuple(
            f"column {column.name!r} holds a category that is not known to the model in {len(words)} of {len(cells.values)} rows, "
            f"such as {words[0]!r}"
            for column, cells, words in found
            if words
        )

    def _columns_of(self, table: Any) -> Columns:
        columns = columns_of(table, [column.name for column in self.columns])
        missing = [column.name for column in self.columns if column.name not in columns]
        if missing:
            names = getattr(table, "columns", columns)
            raise InputError(f"the table lacks {quoted(missing)}; it has {quoted(names)}: every feature must be there")
        return columns


def _parts(codes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a random part for each row; equal rows are in one part, so that a row of weight two equals two rows."""
    order, is_new = sorted_distinct([*codes.T, *y.T])
    part = np.empty(len(order), dtype=np.int64)
    part[order] = (np.random.default_rng(0).permutation(int(is_new.sum())) % PARTS)[np.cumsum(is_new) - 1]
    return part
