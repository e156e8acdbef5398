"""From a name to a table of numbers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gar.app.compare.curves import sine, squared_sine
from gar.app.tables.reading import read_table
from gar.errors import InputError
from gar_reproduction.data.catalog import DataSet, describe
from gar_reproduction.data.gdsc import drugs_and_features
from gar_reproduction.data.home import Folder, located, notes_on
from gar_reproduction.data.table import Table

if TYPE_CHECKING:
    import pandas as pd


_WITHOUT_FILES = {"bundled": "scikit-learn", "generated": "its formula"}


class Parts(NamedTuple):
    """What a loader finds in its files."""

    x: "pd.DataFrame"
    y: "pd.DataFrame"
    groups: np.ndarray | None = None


def load(name: str, *, home: Folder = None) -> Table:
    """A data set as a table of numbers.

    Args:
        name: one of :func:`names`.
        home: the data folder; None takes the usual one.

    Example:
        >>> load("squared-sine")
        Table('squared-sine', rows=2048, features=1, targets=1)
    """
    entry = describe(name)
    if name == "agedb":
        raise InputError("agedb holds images, not a table; use gar.vision.read_images, or 'gar agedb'")
    files = located(name, home=home)
    source = ", ".join(map(str, files)) or _WITHOUT_FILES[entry.origin]
    try:
        parts = _LOADERS[name](files)
        x, y = parts.x.to_numpy(np.float64), parts.y.to_numpy(np.float64)
    except InputError:
        raise
    except (KeyError, ValueError) as error:
        raise InputError(f"{source} is not {entry.title} ({error}); get the file anew from {entry.homepage}") from error
    table = Table(
        name=name,
        title=entry.title,
        x=x,
        y=y,
        feature_names=tuple(map(str, parts.x.columns)),
        target_names=tuple(map(str, parts.y.columns)),
        groups=parts.groups,
        notes=notes_on(entry, home),
        source=source,
    )
    _check_counts(table, entry)
    return table


def _last_column(files: Sequence[Path], name: str | None = None) -> Parts:
    """Tables with the label in the last column, one below the other."""
    import pandas as pd

    frame = pd.concat([read_table(file) for file in files], ignore_index=True)
    x, y = frame.iloc[:, :-1], frame.iloc[:, -1:]
    return Parts(x, y if name is None else y.set_axis([name], axis=1))


def _concrete(files: Sequence[Path]) -> Parts:
    parts = _last_column(files, "strength")
    return Parts(parts.x.rename(columns=lambda name: name.split("(")[0].strip()), parts.y)


def _parkinson(target: str) -> Callable[[Sequence[Path]], Parts]:
    def loader(files: Sequence[Path]) -> Parts:
        frame = read_table(files[0])
        voice = frame.columns[frame.columns.get_loc("total_UPDRS") + 1 :]
        return Parts(frame[["age", "test_time", *voice, "sex"]], frame[[target]], frame["subject#"].to_numpy())

    return loader


def _gdsc(files: Sequence[Path]) -> Parts:
    return Parts(*drugs_and_features(read_table(files[0]), most_complete=15))


def _ic50(files: Sequence[Path]) -> Parts:
    return Parts(*drugs_and_features(read_table(files[0]), max_missing=0.28))


def _curve(points: Callable[[], tuple[np.ndarray, np.ndarray]]) -> Callable[[Sequence[Path]], Parts]:
    def loader(files: Sequence[Path]) -> Parts:
        import pandas as pd

        x, y = points()
        return Parts(pd.DataFrame(x, columns=["x"]), pd.DataFrame(y, columns=["y"]))

    return loader


def _diabetes(files: Sequence[Path]) -> Parts:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, as_frame=True)
    return Parts(x, y.to_frame("progression"))


_LOADERS: dict[str, Callable[[Sequence[Path]], Parts]] = {
    "concrete": _concrete,
    "wine": _last_column,
    "wine-white": _last_column,
    "parkinson-total": _parkinson("total_UPDRS"),
    "parkinson-motor": _parkinson("motor_UPDRS"),
    "superconductivity": _last_column,
    "gdsc": _gdsc,
    "ic50": _ic50,
    "sine": _curve(sine),
    "squared-sine": _curve(squared_sine),
    "diabetes": _diabetes,
}


def _check_counts(table: Table, entry: DataSet) -> None:
    """A table of another size is another table, and results on it are not those of this data set."""
    found, expected = (*table.x.shape, table.y.shape[1]), (entry.rows, entry.features, len(entry.targets))
    if found != expected:
        words = "{} rows, {} features and {} targets"
        raise InputError(
            f"{table.source} gives {words.format(*found)}; {entry.title} has {words.format(*expected)}: "
            f"get the file anew from {entry.homepage}, or read it as a table of your own with read_table"
        )
