"""From the name of a data set to a table of numbers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gar.app.compare.curves import sine, squared_sine
from gar.app.tables.reading import read_table
from gar.errors import InputError
from gar_reproduction.data.catalog import DataSet, describe
from gar_reproduction.data.files import located, notes_on
from gar_reproduction.folders import Folder

if TYPE_CHECKING:
    import pandas as pd

_DRUG = re.compile(r"(.+)_IC_50(\.\d+)?")
_LINE, _NUMBER = "cell line", "cosmic_id"
"""Columns of GDSC: a drug's response, and what names a cell line."""
_WITHOUT_FILES = {"bundled": "scikit-learn", "generated": "its formula"}


@dataclass(frozen=True, kw_only=True, eq=False)
class DataTable:
    """Features and labels with their names, and what a reader of results should know.

    Args:
        name: short, as in commands.
        title: for people.
        x: features ``(rows, features)``, float64.
        y: labels ``(rows, targets)``, float64; NaN where one is missing.
        feature_names: one for each column of ``x``.
        target_names: one for each column of ``y``.
        groups: rows with equal values belong together (recordings of one person), ``(rows,)``; None where there are none.
        notes: what was done to the table, and its quirks.
        source: where it came from.
    """

    name: str
    title: str
    x: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    groups: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        shapes = (len(self.x), len(self.feature_names)), (len(self.x), len(self.target_names))
        if (self.x.shape, self.y.shape) != shapes:
            raise InputError(f"{self.name}: x has shape {self.x.shape}, y {self.y.shape}; expected {shapes[0]} and {shapes[1]}")
        if self.groups is not None and self.groups.shape != (len(self.x),):
            raise InputError(f"{self.name}: groups has shape {self.groups.shape}; expected one value per row: ({len(self.x)},)")

    def __repr__(self) -> str:
        return f"DataTable({self.name!r}, rows={len(self.x)}, features={self.x.shape[1]}, targets={self.y.shape[1]})"


class _Frames(NamedTuple):
    """The content of a data set's files."""

    x: "pd.DataFrame"
    y: "pd.DataFrame"
    groups: np.ndarray | None = None


def load(name: str, *, home: Folder = None) -> DataTable:
    """Return a data set as a table of numbers.

    Args:
        name: of the catalog.
        home: the data folder; None takes the usual one.

    Example:
        >>> load("squared-sine")
        DataTable('squared-sine', rows=2048, features=1, targets=1)
    """
    entry = describe(name)
    if name == "agedb":
        raise InputError("agedb holds images, not a table; use gar.vision.read_images, or 'gar agedb'")
    files = located(name, home=home)
    source = ", ".join(map(str, files)) or _WITHOUT_FILES[entry.origin]
    try:
        frames = _LOADERS[name](files)
        x, y = frames.x.to_numpy(np.float64), frames.y.to_numpy(np.float64)
    except InputError:
        raise
    except (KeyError, ValueError) as error:
        raise InputError(f"{source} is not {entry.title} ({error}); get the file anew from {entry.homepage}") from error
    table = DataTable(
        name=name,
        title=entry.title,
        x=x,
        y=y,
        feature_names=tuple(map(str, frames.x.columns)),
        target_names=tuple(map(str, frames.y.columns)),
        groups=frames.groups,
        notes=notes_on(entry, home),
        source=source,
    )
    _check_counts(table, entry)
    return table


def _last_column(files: Sequence[Path], name: str | None = None) -> _Frames:
    """Read tables with the label in the last column, and concatenate them."""
    import pandas as pd

    frame = pd.concat([read_table(file) for file in files], ignore_index=True)
    x, y = frame.iloc[:, :-1], frame.iloc[:, -1:]
    return _Frames(x, y if name is None else y.set_axis([name], axis=1))


def _concrete(files: Sequence[Path]) -> _Frames:
    frames = _last_column(files, "strength")
    return _Frames(frames.x.rename(columns=lambda name: name.split("(")[0].strip()), frames.y)


def _parkinson(files: Sequence[Path], target: str) -> _Frames:
    frame = read_table(files[0])
    voice = frame.columns[frame.columns.get_loc("total_UPDRS") + 1 :]
    return _Frames(frame[["age", "test_time", *voice, "sex"]], frame[[target]], frame["subject#"].to_numpy())


def _cell_lines(files: Sequence[Path], **choice: float) -> _Frames:
    return _Frames(*drugs_and_features(read_table(files[0]), **choice))  # type: ignore[arg-type]


def drugs_and_features(
    frame: "pd.DataFrame", *, most_complete: int | None = None, max_missing: float = 1.0
) -> tuple["pd.DataFrame", "pd.DataFrame"]:
    """Return one-hot features and drug responses ``ln IC50`` of the lines that have a value for every drug that is kept.

    Args:
        frame: columns named ``..._IC_50`` are drugs, the line's name and COSMIC number are left out, all others are categories.
        most_complete: keep this many drugs, those with the fewest gaps; equal ones in the order of the table.
        max_missing: keep drugs with at most this share of gaps.
    """
    import pandas as pd

    frame = _only_lines(frame)
    drugs = [column for column in frame.columns if _DRUG.fullmatch(column)]
    responses = frame[drugs].apply(pd.to_numeric, errors="coerce")
    gaps = responses.isna().mean().sort_values(kind="stable")
    kept = gaps[gaps <= max_missing].index[:most_complete]
    if len(kept) == 0:
        raise InputError(f"no drug has at most {max_missing:.0%} gaps; expected columns named like 'Erlotinib_IC_50'")
    complete = responses[list(kept)].dropna()
    other = [column for column in frame.columns if not _is_drug_or_name(column, drugs)]
    categories = frame.loc[complete.index, other].astype(str)
    return pd.get_dummies(categories).astype(float), complete.rename(columns=lambda name: name.replace("_IC_50", ""))


def _only_lines(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Drop rows that describe columns, as in GDSC's own files: only cell lines have a number in COSMIC."""
    import pandas as pd

    number = next((column for column in frame.columns if column.lower() == _NUMBER), None)
    return frame if number is None else frame[pd.to_numeric(frame[number], errors="coerce").notna()]


def _is_drug_or_name(column: str, drugs: list[str]) -> bool:
    """Return True for a drug's response, another measure of it (``Erlotinib_AUC``), or a name of the line."""
    stems = {match[1] for match in map(_DRUG.fullmatch, drugs) if match}
    return column.lower() in (_LINE, _NUMBER) or column in drugs or column.rpartition("_")[0] in stems


def _curve(files: Sequence[Path], points: Callable[[], tuple[np.ndarray, np.ndarray]]) -> _Frames:
    import pandas as pd

    x, y = points()
    return _Frames(pd.DataFrame(x, columns=["x"]), pd.DataFrame(y, columns=["y"]))


def _diabetes(files: Sequence[Path]) -> _Frames:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, as_frame=True)
    return _Frames(x, y.to_frame("progression"))


_LOADERS: dict[str, Callable[[Sequence[Path]], _Frames]] = {
    "concrete": _concrete,
    "wine": _last_column,
    "wine-white": _last_column,
    "parkinson-total": partial(_parkinson, target="total_UPDRS"),
    "parkinson-motor": partial(_parkinson, target="motor_UPDRS"),
    "superconductivity": _last_column,
    "gdsc": partial(_cell_lines, most_complete=15),
    "ic50": partial(_cell_lines, max_missing=0.28),
    "sine": partial(_curve, points=sine),
    "squared-sine": partial(_curve, points=squared_sine),
    "diabetes": _diabetes,
}


def _check_counts(table: DataTable, entry: DataSet) -> None:
    """Refuse a table of another size: results on it would not be those of this data set."""
    found, expected = (*table.x.shape, table.y.shape[1]), (entry.rows, entry.features, len(entry.targets))
    if found != expected:
        words = "{} rows, {} features and {} targets"
        raise InputError(
            f"{table.source} gives {words.format(*found)}; {entry.title} has {words.format(*expected)}: "
            f"get the file anew from {entry.homepage}, or read it as a table of your own with read_table"
        )
