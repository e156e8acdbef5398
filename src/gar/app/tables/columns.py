"""Cells of columns of pandas as numbers or text, and the labels of a table."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from gar.encoding.cells import pandas_cells
from gar.errors import InputError, quoted


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
    return pandas_cells(series).floats()


def is_numeric(series: pd.Series) -> bool:
    """Return True if the dtype is real, boolean or a duration."""
    return series.dtype.kind in "fiubm"


def unparsed_text(series: pd.Series, values: np.ndarray) -> pd.Series:
    """Return the text of cells that are not empty, but NaN in ``values``; the index is the row number, from 1."""
    rows = np.flatnonzero(np.isnan(values))
    return to_text(series.iloc[rows].set_axis(rows + 1)).dropna()
