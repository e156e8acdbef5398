"""Columns of frames of pandas or polars and of arrays; neither library is imported here, nor needed for the other's frames."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gar.encoding.cells import Cells, text_cells
from gar.encoding.notes import quoted
from gar.errors import InputError

Columns = Mapping[str, Cells]
"""The columns of a table by name."""


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
