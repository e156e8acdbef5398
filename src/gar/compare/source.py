"""Which columns are features and which labels: a file of the user's, or a data set of the catalog."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd

from gar.datasets import Table, describe, labels_of, load, read_table
from gar.errors import InputError

_SHOWN = 8


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
    path: str | os.PathLike[str], *, targets: Sequence[str], group: str | None = None, drop: Sequence[str] = ()
) -> Source:
    """A file of any kind that :func:`gar.datasets.read_table` reads.

    Args:
        path: of the file.
        targets: names of columns to predict; ``"a,b"`` is two of them, unless there is a column of just that name.
        group: the column that tells which rows belong together. It is no feature.
        drop: columns that are no features either, in the same manner.
    """
    frame = read_table(path)
    return source_of_frame(frame, targets=targets, group=group, drop=drop, name=Path(path).stem, source=Path(path).name)


def source_of_frame(
    frame: pd.DataFrame,
    *,
    targets: Sequence[str],
    group: str | None = None,
    drop: Sequence[str] = (),
    name: str = "table",
    source: str = "a table in memory",
) -> Source:
    """The same from a table in memory."""
    wanted = _columns(frame, targets, "target")
    if not wanted:
        raise InputError(f"no target is given; say which columns to predict: --target COL; there are {_some(frame)}")
    grouped = [] if group is None else _columns(frame, [group], "group")
    left_out = _columns(frame, drop, "drop")
    for column in wanted:
        if column in grouped or column in left_out:
            raise InputError(f"column {column!r} is a target and cannot be left out or group rows; choose another")
    features = frame.drop(columns=[*wanted, *grouped, *left_out])
    if features.shape[1] == 0:
        raise InputError(f"{source} has no column left to predict from; a table needs a feature besides its targets")
    groups = _groups(frame, grouped) if grouped else None
    return Source(
        name=name,
        title=name,
        source=source,
        features=features,
        labels=labels_of(frame, wanted),
        targets=tuple(wanted),
        groups=groups,
    )


def source_of_data_set(name: str, *, group: str | None = None) -> Source:
    """A table of the catalog. ``group`` is the name of its groups, if it has any: Parkinson's are ``"subject"``."""
    return _source_of_table(load(name), group, describe(name).groups)


def _source_of_table(table: Table, group: str | None, known: str | None) -> Source:
    if group is not None and (group != known or table.groups is None):
        has = f"only the group {known!r}" if known else "no groups"
        raise InputError(f"group={group!r} is not known; {table.name} has {has}")
    return Source(
        name=table.name,
        title=table.title,
        source=table.source,
        features=pd.DataFrame(table.x, columns=list(table.feature_names)),
        labels=table.y,
        targets=table.target_names,
        groups=None if group is None or table.groups is None else pd.factorize(table.groups)[0],
        notes=table.notes,
    )


def _columns(frame: pd.DataFrame, given: Sequence[str], option: str) -> list[str]:
    """Names as they are, or parts between commas."""
    names: list[str] = []
    for text in given:
        names += [text] if text in frame.columns else [part.strip() for part in text.split(",")]
    for name in names:
        if name not in frame.columns:
            near = get_close_matches(name, map(str, frame.columns), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {_some(frame)}"
            raise InputError(f"{option} {name!r} is not a column of the table; {hint}")
    return list(dict.fromkeys(names))


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
