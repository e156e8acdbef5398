"""Which columns are features and which labels: a file of the user's, a frame, or a data set by name."""

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gar.app.tables import read_with_notes, target_values
from gar.app.tables.columns import is_numeric, to_floats
from gar.errors import InputError

DIABETES = "diabetes"
_SHOWN = 8
_NAMELESS = ("Unnamed: 0", "column 1")
"""What the first column is called where its header is empty, in text and in workbooks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A table to compare on."""

    name: str
    title: str
    source: str
    features: pd.DataFrame
    labels: np.ndarray
    """``(rows, targets)``, NaN where one is missing."""
    targets: tuple[str, ...]
    groups: np.ndarray | None = None
    """Rows with equal numbers belong together."""
    notes: tuple[str, ...] = ()


def source_of_file(
    path: str | os.PathLike[str],
    *,
    targets: Sequence[str],
    group: str | None = None,
    drop: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Source:
    """A file of any kind that :func:`gar.app.tables.read_table` reads.

    Args:
        path: of the file.
        targets: names of columns to predict; ``"a,b"`` is two of them, unless there is a column of just that name.
        group: the column that tells which rows belong together. It is no feature.
        drop: columns that are no features either, in the same manner.
        delimiter: of text; None finds out.
        encoding: of text; None finds out.
    """
    frame, notes = read_with_notes(path, delimiter=delimiter, encoding=encoding)
    source = source_of_frame(frame, targets=targets, group=group, drop=drop, name=Path(path).stem, source=Path(path).name)
    return replace(source, notes=(*notes, *source.notes))


def source_of_frame(
    frame: pd.DataFrame,
    *,
    targets: Sequence[str],
    group: str | None = None,
    drop: Sequence[str] = (),
    name: str = "table",
    source: str = "a table in memory",
) -> Source:
    """The same from a table in memory: of pandas, or of a library whose tables have ``to_pandas``, such as polars."""
    frame = _of_pandas(frame)
    wanted = _columns(frame, targets, "target")
    if not wanted:
        raise InputError(f"no target is given; say which columns to predict: --target COL; there are {_some(frame)}")
    grouped = [] if group is None else _columns(frame, [group], "group")
    left_out = _columns(frame, drop, "drop")
    for column in wanted:
        if column in grouped or column in left_out:
            raise InputError(f"column {column!r} is a target and cannot be left out or group rows; choose another")
    _check_single(frame, [*wanted, *grouped])
    features, notes = _without_index(frame.drop(columns=[*wanted, *grouped, *left_out]), str(frame.columns[0]))
    if features.shape[1] == 0:
        raise InputError(f"{source} has no column left to predict from; a table needs a feature besides its targets")
    groups = _groups(frame, grouped) if grouped else None
    return Source(
        name=name,
        title=name,
        source=source,
        features=features,
        labels=target_values(frame, wanted),
        targets=tuple(wanted),
        groups=groups,
        notes=notes,
    )


def data_set_names() -> list[str]:
    """Return the names of all data sets: scikit-learn's diabetes, and those of installed packages (group ``gar.data_sets``)."""
    return [DIABETES, *(name for provider in _providers() for name in provider.names())]


def source_of_data_set(name: str, *, group: str | None = None) -> Source:
    """Return a data set by name; ``group`` names the column of its groups, if it has any."""
    if name == DIABETES:
        return _diabetes()
    for provider in _providers():
        if name in provider.names():
            found: Source = provider.source(name, group=group)
            return found
    raise InputError(f"data set {name!r} is unknown; choose one of {', '.join(data_set_names())}, or name a file")


def _providers() -> list[Any]:
    return [entry.load() for entry in entry_points(group="gar.data_sets")]


def _diabetes() -> Source:
    from sklearn.datasets import load_diabetes

    features, labels = load_diabetes(return_X_y=True, as_frame=True)
    return Source(
        name=DIABETES,
        title="Diabetes",
        source="scikit-learn",
        features=features,
        labels=labels.to_numpy(np.float64)[:, None],
        targets=("progression",),
        notes=("Part of scikit-learn, features scaled.",),
    )


def _of_pandas(frame: object) -> pd.DataFrame:
    table = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"the table is of type {type(frame).__name__}; expected a DataFrame of pandas, or one with to_pandas()")
    return table


def _columns(frame: pd.DataFrame, given: Iterable[str], option: str) -> list[str]:
    """Names as they are, or parts between commas; text alone is one name, or its parts."""
    names: list[str] = []
    for text in [given] if isinstance(given, str) or not isinstance(given, Iterable) else given:
        if not isinstance(text, str):
            raise InputError(f"{option} {text!r} is not text; expected names of columns, which are text, such as 'price'")
        names += [text] if text in frame.columns else [part.strip() for part in text.split(",")]
    for name in names:
        if name not in frame.columns:
            near = get_close_matches(name, map(str, frame.columns), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {_some(frame)}"
            raise InputError(f"{option} {name!r} is not a column of the table; {hint}")
    return list(dict.fromkeys(names))


def _check_single(frame: pd.DataFrame, names: Sequence[str]) -> None:
    for name in names:
        count = int((frame.columns == name).sum())
        if count > 1:
            raise InputError(f"{count} columns are called {name!r}; rename all but one")


def _without_index(features: pd.DataFrame, first: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Without the first column of a file if it is an index that was written along, and what is to be said of the like."""
    notes = []
    if first in _NAMELESS and first in features.columns and features.shape[1] > 1 and _counts_rows(features[first]):
        features = features.drop(columns=first)
        notes.append(f"column {first!r} was left out: it has no name in the file, and counts the rows as an index does")
    notes += [
        f"column {str(name)!r} counts the rows and is taken as a feature; "
        f"if it is none, leave it out: --drop {shlex.quote(str(name))}"
        for name, series in features.items()
        if _counts_rows(series)
    ]
    return features, tuple(notes)


def _counts_rows(series: pd.Series) -> bool:
    """Whether it is 0, 1, 2 and so on, or 1, 2, 3."""
    if not is_numeric(series) or len(series) == 0:
        return False
    values = to_floats(series)
    return values[0] in (0, 1) and np.array_equal(values - values[0], np.arange(len(values)))


def _some(frame: pd.DataFrame) -> str:
    """The first columns, to choose from."""
    names = [repr(str(name)[:40]) for name in frame.columns[:_SHOWN]]
    more = frame.shape[1] - len(names)
    return "the columns " + ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _groups(frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """Numbers of groups, equal where all of the columns are."""
    missing = int(frame[columns].isna().any(axis=1).sum())
    if missing:
        raise InputError(f"group {', '.join(columns)!r} is empty in {missing} rows; fill it, or remove these rows")
    return np.asarray(frame.groupby(columns, sort=False).ngroup())
