"""The encoder: a table of numbers, text and dates as numbers, in two steps.

First every cell becomes one number, its code: a value, days since 1970, or the index of a category. That needs no training rows.
Then codes become features, with medians and mean labels of training rows. So folds, weights and equal rows concern arrays alone.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gar.encoding.categories import PARTS, CategoricalColumn, TargetColumn
from gar.encoding.cells import Columns, columns_of
from gar.encoding.inference import MAX_CATEGORIES, EncodedColumn, Inference, categorical_names
from gar.encoding.numbers import NumericColumn
from gar.errors import InputError, quoted


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


def inferred_codes(estimator: Any, columns: Columns, weight: np.ndarray | None, *, fill: bool = True) -> tuple[Encoder, np.ndarray]:
    """Return the encoder of a table that an estimator is fitted to, by its ``categorical_features``, and the codes of its rows.

    Rows of weight 0 count for nothing: their codes are NaN.
    """
    categorical = categorical_names(estimator.categorical_features, list(columns))
    rows = len(next(iter(columns.values())).values) if columns else 0
    counted = np.ones(rows, dtype=bool) if weight is None or not weight.any() else weight > 0
    used = columns if counted.all() else {name: cells.take(counted) for name, cells in columns.items()}
    encoder = Encoder.infer(used, categorical=categorical, fill=fill)
    codes = encoder.codes(used)
    if counted.all():
        return encoder, codes
    every = np.full((rows, codes.shape[1]), np.nan)
    every[counted] = codes
    return encoder, every


class EncodedFolds(NamedTuple):
    """Features of all folds.

    ``x`` are features, ``rows`` the row of the original table for each of them, ``parts`` the indices of each fold's parts in
    ``x``, of which the first is the training part, and ``encoders`` has a fitted encoder for each fold.
    """

    x: np.ndarray
    rows: np.ndarray
    parts: list[tuple[np.ndarray, ...]]
    encoders: list[Encoder]


def encode_folds(
    encoder: Encoder, codes: np.ndarray, y: np.ndarray, folds: Sequence[Sequence[ArrayLike]], weight: np.ndarray | None = None
) -> EncodedFolds:
    """Encode every fold with medians and mean labels of its own training rows.

    If none of the features depends on the fold, rows are encoded once, and folds share one encoder. Otherwise every fold has its
    own features of its rows.

    Args:
        encoder: inferred from this table.
        codes: its codes, from :meth:`Encoder.codes`.
        y: labels ``(rows, targets)``, NaN where one is missing.
        folds: for each fold the row numbers of its parts, the training rows first.
        weight: how often each row counts, ``(rows,)``.
    """
    parts = [tuple(np.asarray(part, dtype=np.int64) for part in fold) for fold in folds]
    counts = np.ones(len(codes)) if weight is None else weight
    if not encoder.depends_on_rows(codes):
        trained = np.unique(np.concatenate([fold[0] for fold in parts]))
        fitted = encoder.fit(codes[trained], y[trained], counts[trained])
        return EncodedFolds(fitted.encode(codes), np.arange(len(codes)), parts, [fitted] * len(parts))
    rows, new_parts = np.concatenate([part for fold in parts for part in fold]), _consecutive(parts)
    encoders, x = [], np.empty((0, 0))
    for (train, *others), (new_train, *new_others) in zip(parts, new_parts, strict=True):
        fitted, features = encoder.fit_encode(codes[train], y[train], counts[train])
        encoders.append(fitted)
        x = x if len(encoders) > 1 else np.empty((len(rows), features.shape[1]))
        x[new_train] = features
        for part, new_part in zip(others, new_others, strict=True):
            x[new_part] = fitted.encode(codes[part])
    return EncodedFolds(x, rows, new_parts, encoders)


def _consecutive(parts: list[tuple[np.ndarray, ...]]) -> list[tuple[np.ndarray, ...]]:
    """Return parts of the same sizes, with rows numbered one after another."""
    ends = np.cumsum([len(part) for fold in parts for part in fold])
    pieces = iter(np.split(np.arange(ends[-1]), ends[:-1]))
    return [tuple(next(pieces) for _ in fold) for fold in parts]


def _parts(codes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a random part for each row; equal rows are in one part, so that a row of weight two equals two rows."""
    order, is_new = sorted_distinct([*codes.T, *y.T])
    part = np.empty(len(order), dtype=np.int64)
    part[order] = (np.random.default_rng(0).permutation(int(is_new.sum())) % PARTS)[np.cumsum(is_new) - 1]
    return part


def sorted_distinct(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the order that sorts rows by their columns, NaN last, and which of the sorted rows differ from the one before.

    Example:
        >>> order, is_new = sorted_distinct([np.array([2.0, np.nan, 1.0, np.nan])])
        >>> order.tolist(), is_new.tolist()
        ([2, 0, 1, 3], [True, True, True, False])
    """
    order = np.arange(len(columns[0]))
    is_new = order == 0
    for column in columns:  # each sorts those rows only that are equal in all columns before
        tied = ~is_new
        tied[:-1] |= ~is_new[1:]
        rows = order[tied]
        if len(rows) == 0:
            break
        order[tied] = rows[np.lexsort([column[rows], np.cumsum(is_new)[tied]])]
        equal = np.flatnonzero(~is_new)
        before, after = column[order[equal - 1]], column[order[equal]]
        is_new[equal] = (before != after) & ~(np.isnan(before) & np.isnan(after))
    return order, is_new
