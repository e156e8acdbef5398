"""Encode a table of numbers, text and dates as numbers, fitted on training rows alone.

Column types are inferred once, from the features of the whole table; labels are not used. Fill values of missing numbers are
fitted in each fold, on its training rows.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from gar.app.tables.columns import CategoricalColumn, EncodedColumn, NumericColumn, infer_columns, quoted
from gar.errors import InputError

if TYPE_CHECKING:
    from gar.stack import StackData

FORMAT = 1
_KINDS: dict[str, type[EncodedColumn]] = {"number": NumericColumn, "category": CategoricalColumn}


@dataclass(frozen=True)
class Encoder:
    """Encoding of a table's columns as numbers.

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
        columns, notes = infer_columns(frame, max_categories)
        if not columns:
            raise InputError(f"no column can be used as a feature: {'; '.join(notes) or 'there is none besides the targets'}")
        return Encoder(columns, notes)

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

    def to_json(self) -> str:
        kinds = {kind: name for name, kind in _KINDS.items()}
        columns = [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns]
        return json.dumps({"format": FORMAT, "columns": columns, "notes": self.notes}, indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "Encoder":
        """Return the encoder that :meth:`to_json` wrote."""
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise InputError(f"the encoder has format {content['format']!r}; this version of gar reads format {FORMAT}")
            return Encoder(tuple(map(_column_from_json, content["columns"])), tuple(content["notes"]))
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is no encoder written by gar ({type(error).__name__}: {error})") from error

    def _check(self, frame: pd.DataFrame) -> None:
        missing = [column.name for column in self.columns if column.name not in frame.columns]
        if missing:
            raise InputError(f"the table lacks {quoted(missing)}; it has {quoted(frame.columns)}: every feature must be there")


def _column_from_json(content: dict[str, object]) -> EncodedColumn:
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    return _KINDS[str(fields.pop("kind"))](**fields)  # type: ignore[arg-type]


class EncodedFolds(NamedTuple):
    """A table as numbers, for all folds.

    ``data`` is what networks are trained on, ``encoders`` has one fitted encoder per fold, ``rows`` the row of the original
    table for each row of ``data``.
    """

    data: "StackData"
    encoders: list[Encoder]
    rows: np.ndarray


def encode_folds(
    encoder: Encoder,
    frame: pd.DataFrame,
    y: np.ndarray,
    folds: Sequence[Sequence[ArrayLike]],
    *,
    scale_labels: bool = True,
) -> EncodedFolds:
    """Encode and standardise every fold with statistics of its own training rows.

    Args:
        encoder: inferred from this table.
        frame: the features.
        y: labels ``(rows, targets)``, NaN where one is missing.
        folds: row numbers ``(train, valid, test)`` of each fold.
        scale_labels: standardise labels too.
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
    data = StackData(x, np.asarray(y)[rows], parts, scale_features=True, scale_labels=scale_labels)
    return EncodedFolds(data, encoders, rows)


def _consecutive(parts: list[tuple[np.ndarray, ...]]) -> list[tuple[np.ndarray, ...]]:
    """Return parts of the same sizes, with rows numbered one after another."""
    ends = np.cumsum([len(part) for fold in parts for part in fold])
    pieces = iter(np.split(np.arange(ends[-1]), ends[:-1]))
    return [tuple(next(pieces) for _ in fold) for fold in parts]
