"""From a table of anything to a table of numbers, fitted on training rows alone and written as JSON.

Which columns there are is decided once, from the features of the whole table; no label is looked at. What is filled in for
missing numbers is decided in each fold, from its training rows.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gar.app.tables.columns import CategoryColumn, Column, NumberColumn, numbers, unreadable
from gar.app.tables.planning import plan_columns
from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from gar.stack import StackData

FORMAT = 1
_KINDS: dict[str, type[Column]] = {"number": NumberColumn, "category": CategoryColumn}


@dataclass(frozen=True)
class Encoder:
    """How the columns of a table become numbers.

    Attributes:
        columns: what becomes of each column that is used.
        notes: what a reader of results should know: columns left out, turned into others, or filled.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"size": [1.0, None, 4.0], "colour": ["red", "blue", "red"]})
        >>> encoder = Encoder.plan(frame).fit(frame)
        >>> encoder.feature_names
        ['size', 'size is missing', 'colour=blue', 'colour=red']
        >>> encoder.transform(frame)[1]
        array([2.5, 1. , 1. , 0. ])
    """

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    @staticmethod
    def plan(frame: "pd.DataFrame", *, max_categories: int = 20) -> "Encoder":
        """Decide what each column is.

        Args:
            frame: the features, without labels.
            max_categories: of a text column at most so many values get a column of their own; rarer ones share one.
        """
        if max_categories < 1:
            raise InputError(f"max_categories={max_categories}; expected at least 1")
        if len(frame) == 0:
            raise InputError("the table has no rows; expected at least one")
        if not frame.columns.is_unique or not all(isinstance(name, str) for name in frame.columns):
            raise InputError("columns must have different names that are text; rename them, or read the table with read_table")
        columns, notes = plan_columns(frame, max_categories)
        if not columns:
            raise InputError(f"no column can be used as a feature: {'; '.join(notes) or 'there is none besides the targets'}")
        return Encoder(columns, notes)

    @property
    def feature_names(self) -> list[str]:
        """Of the numbers that :meth:`transform` gives, in their order."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def categories(self) -> tuple[CategoryColumn, ...]:
        """Those of the columns that hold text."""
        return tuple(column for column in self.columns if isinstance(column, CategoryColumn))

    def fit(self, frame: "pd.DataFrame") -> "Encoder":
        """A new encoder that fills missing numbers with medians of these rows."""
        self._check(frame)
        return replace(self, columns=tuple(column.fit(frame[column.name]) for column in self.columns))

    def transform(self, frame: "pd.DataFrame") -> np.ndarray:
        """Finite numbers ``(rows, features)``. Columns that the encoder does not know are ignored."""
        self._check(frame)
        return np.hstack([column.transform(frame[column.name]) for column in self.columns])

    def unknown(self, frame: "pd.DataFrame") -> tuple[str, ...]:
        """One line for each column that holds categories without a number of their own: how many rows, and an example."""
        self._check(frame)
        found = [(column, column.unknown(frame[column.name])) for column in self.categories]
        return tuple(
            f"column {column.name!r} holds a category that {'is rare or new to' if column.other else 'is not known to'} the model "
            f"in {len(words)} of {len(frame)} rows, such as {words.iloc[0]!r}"
            for column, words in found
            if len(words)
        )

    def fills(self, frame: "pd.DataFrame") -> bool:
        """Whether a number is missing in any row, so that :meth:`fit` matters."""
        return any(np.isnan(column.values(frame[column.name])).any() for column in self.columns if isinstance(column, NumberColumn))

    def to_json(self) -> str:
        kinds = {kind: name for name, kind in _KINDS.items()}
        columns = [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns]
        return json.dumps({"format": FORMAT, "columns": columns, "notes": self.notes}, indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "Encoder":
        """The encoder that :meth:`to_json` wrote."""
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise InputError(f"the encoder has format {content['format']!r}; this version of gar reads format {FORMAT}")
            return Encoder(tuple(map(_column, content["columns"])), tuple(content["notes"]))
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is no encoder written by gar ({type(error).__name__}: {error})") from error

    def _check(self, frame: "pd.DataFrame") -> None:
        missing = [column.name for column in self.columns if column.name not in frame.columns]
        if missing:
            raise InputError(
                f"the table lacks {_listed(missing)}; it has {_listed(list(frame.columns))}: every feature must be there"
            )


class EncodedFolds(NamedTuple):
    """A table as numbers.

    ``data`` is what is trained on, ``encoders`` has one fitted encoder per fold, ``rows`` the row of the original table
    for each row of ``data``.
    """

    data: "StackData"
    encoders: list[Encoder]
    rows: np.ndarray


def encode_folds(
    encoder: Encoder,
    frame: "pd.DataFrame",
    y: np.ndarray,
    folds: Sequence[Sequence[ArrayLike]],
    *,
    labels: Literal["raw", "train"] = "train",
) -> EncodedFolds:
    """Every fold encoded by its own training rows, and features standardised with their statistics.

    Args:
        encoder: planned for this table.
        frame: the features.
        y: labels ``(rows, targets)``, NaN where one is missing.
        folds: row numbers ``(train, valid, test)`` for each fold.
        labels: ``"train"`` standardises labels with statistics of each fold's training rows, ``"raw"`` leaves them.
    """
    from gar.stack import StackData
    from gar.validation import check_choice

    check_choice(labels, ("raw", "train"), "labels")
    parts = [tuple(np.asarray(part, dtype=np.int64) for part in fold) for fold in folds]
    encoders = [encoder.fit(frame.iloc[train]) for train, _, _ in parts]
    if encoder.fills(frame):  # then a row has other numbers in every fold, and stands in the table once for each
        rows = np.concatenate([row for fold in parts for row in fold])
        blocks = [fitted.transform(frame.iloc[np.concatenate(fold)]) for fitted, fold in zip(encoders, parts, strict=True)]
        x, parts = np.concatenate(blocks), _consecutive(parts)
    else:
        rows, x = np.arange(len(frame)), encoders[0].transform(frame)
    data = StackData(x, np.asarray(y)[rows], parts, scale_features=True, scale_labels=labels == "train")
    return EncodedFolds(data, encoders, rows)


def labels_of(frame: "pd.DataFrame", targets: Sequence[str]) -> np.ndarray:
    """Labels ``(rows, targets)``, NaN where one is missing.

    Example:
        >>> import pandas as pd
        >>> labels_of(pd.DataFrame({"price": [3, None]}), ["price"])
        array([[ 3.],
               [nan]])
    """
    if isinstance(targets, str) or not targets or len(set(targets)) != len(targets):
        raise InputError(f"targets={targets!r}; expected a list of different column names")
    unknown = [name for name in targets if name not in frame.columns]
    if unknown:
        raise InputError(f"the table has no column {_listed(unknown)}; it has {_listed(list(frame.columns))}")
    return np.column_stack([_label(frame[name], name) for name in targets])


def _label(series: "pd.Series", name: str) -> np.ndarray:
    values = numbers(series)
    words = unreadable(series, np.where(np.isinf(values), np.nan, values))
    if len(words):
        raise InputError(
            f"target {name!r} holds {words.iloc[0]!r} in row {words.index[0]}; expected numbers, or nothing where unknown"
        )
    if np.isnan(values).all():
        raise InputError(f"target {name!r} has no value in any row; choose another column")
    return values


def _consecutive(parts: list[tuple[np.ndarray, ...]]) -> list[tuple[np.ndarray, ...]]:
    """The same sizes, with rows numbered one after another."""
    ends = np.cumsum([len(part) for fold in parts for part in fold])
    pieces = iter(np.split(np.arange(ends[-1]), ends[:-1]))
    return [tuple(next(pieces) for _ in fold) for fold in parts]


def _column(content: dict[str, object]) -> Column:
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    return _KINDS[str(fields.pop("kind"))](**fields)  # type: ignore[arg-type]


def _listed(names: Sequence[object], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
