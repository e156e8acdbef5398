"""Splits of the paper's tables: its protocol, its authors' own split, and a split that keeps groups together."""

from typing import Literal
from zipfile import BadZipFile

import numpy as np
import torch

from gar.app.tables.splits import Parts, consecutive_folds, count_tested, group_folds
from gar.errors import InputError
from gar.stack import StackData
from gar.stack.scaling import proper_scale
from gar.validation import check_choice
from gar_reproduction.data.catalog import describe
from gar_reproduction.data.loading import DataTable
from gar_reproduction.folders import Folder, data_home

Features = Literal["whole", "train", "none"]
"""Standardised with statistics of the whole table (as the paper's authors did), of each fold's training rows, or not at all."""
Labels = Literal["raw", "train"]
"""Raw labels, or standardised with statistics of each fold's training rows."""
Seed = int | Literal["authors"]
"""Seed of a permutation: a number, or that of the paper's authors."""

_AUTHORS = {
    "concrete": "CCS.npz",
    "wine": "wine_quality.npz",
    "parkinson-total": "parkinson.npz",
    "parkinson-motor": "parkinson.npz",
    "sine": "sine.npz",
    "squared-sine": "sq_sine.npz",
}
_PARKINSON_COLUMN = {"parkinson-motor": 0, "parkinson-total": 1}


def paper_order(rows: int, *, seed: Seed = 0) -> np.ndarray:
    """Return the order into which :func:`paper_split` brings the rows of a table: a permutation of row numbers.

    ``seed="authors"`` is the order of rows in the authors' files of Concrete and Wine.
    """
    if isinstance(seed, str):
        check_choice(seed, ("authors",), "seed")
        return np.random.RandomState(123).permutation(rows)
    return np.random.default_rng(seed).permutation(rows)


def paper_split(
    table: DataTable, *, seed: Seed = 0, folds: int = 5, test: float = 0.2, features: Features = "whole", labels: Labels = "raw"
) -> StackData:
    """Split by the paper's protocol: rows are permuted once, the first fifth is tested, the rest is cut into five folds in order.

    Args:
        table: what to split.
        seed: of the permutation, which is ``paper_order(rows, seed=seed)``; the rows of the result are in this order.
        folds: how many.
        test: share of test rows.
        features: standardised over the ``"whole"`` table, over each fold's ``"train"`` rows, or ``"none"`` (the paper's IC50).
        labels: ``"raw"``, or standardised over each fold's ``"train"`` rows.

    Example:
        >>> from gar_reproduction.data.loading import load
        >>> paper_split(load("diabetes"))
        StackData(rows=442, features=10, targets=1, folds=5)
    """
    order = paper_order(len(table.x), seed=seed)
    count = count_tested(len(order), test, folds, "rows", fewest=2)  # one row has no correlation
    return _stack(table.x[order], table.y[order], consecutive_folds(len(order), count, folds), features, labels)


def authors_split(name: str, *, home: Folder = None, features: Features = "whole", labels: Labels = "raw") -> StackData:
    """Return the split that the paper's authors trained on, from their own file in the data folder's ``authors``.

    Tables have test rows first, then training rows in the authors' order, in five folds. The two curves have one fold, whose
    validation rows are its test rows (the paper selects by the error on them), rows in the order of x, and raw features.
    """
    arrays = _authors_arrays(name, home)
    if name in ("sine", "squared-sine"):
        return _halves(arrays["X"], arrays["y"], arrays["ids"])
    if name in _PARKINSON_COLUMN:
        ids, column = arrays["ids"], _PARKINSON_COLUMN[name]
        x, y, test = arrays["X"][ids], arrays["y"][ids, column : column + 1], int(0.2 * len(ids))
    else:
        x, y = (np.concatenate([arrays[f"te{part}"], arrays[f"tr{part}"]]).astype(float) for part in "XY")
        test = len(arrays["teX"])
    return _stack(x, y, consecutive_folds(len(x), test, 5), features, labels)


def has_authors_split(name: str, *, home: Folder = None) -> bool:
    """Return True if the authors' file for a data set is in the data folder."""
    describe(name)
    return name in _AUTHORS and (data_home(home) / "authors" / _AUTHORS[name]).is_file()


def group_split(
    table: DataTable, *, seed: int = 0, folds: int = 5, test: float = 0.2, features: Features = "train", labels: Labels = "raw"
) -> StackData:
    """Split by group: a share of the groups is the test set, the others are cut into folds of about equal size.

    Args:
        table: with ``groups``, such as Parkinson's subjects.
        seed: which groups are tested.
        folds: how many.
        test: share of groups in the test set.
        features: as in :func:`paper_split`.
        labels: as in :func:`paper_split`.
    """
    if table.groups is None:
        raise InputError(f"{table.name} has no groups; use paper_split")
    return _stack(table.x, table.y, group_folds(table.groups, seed=seed, folds=folds, test=test), features, labels)


def half_split(table: DataTable, *, seed: int = 0) -> StackData:
    """Split by the curves' protocol: a random half trains; the other half validates and tests, since the paper selects by it."""
    return _halves(table.x, table.y, paper_order(len(table.x), seed=seed))


def _stack(x: np.ndarray, y: np.ndarray, parts: list[Parts], features: Features, labels: Labels) -> StackData:
    check_choice(features, ("whole", "train", "none"), "features")
    check_choice(labels, ("raw", "train"), "labels")
    if features == "whole":
        mean, deviation = x.mean(0), x.std(0)
        x = (x - mean) / proper_scale(torch.from_numpy(deviation), torch.from_numpy(mean)).numpy()
    return StackData(x, y, parts, scale_features=features == "train", scale_labels=labels == "train")


def _halves(x: np.ndarray, y: np.ndarray, order: np.ndarray) -> StackData:
    test, train = np.split(order, [len(order) // 2])
    return StackData(x, y, [(train, test, test)])


def _authors_arrays(name: str, home: Folder) -> dict[str, np.ndarray]:
    describe(name)
    if name not in _AUTHORS:
        raise InputError(f"the authors' split of {name!r} is not known; there is one for {', '.join(_AUTHORS)}; use paper_split")
    file = data_home(home) / "authors" / _AUTHORS[name]
    wanted = ("trX", "trY", "teX", "teY") if name in ("concrete", "wine") else ("X", "y", "ids")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in wanted}
    except FileNotFoundError:
        raise InputError(f"the authors' arrays are not at {file}; put their file there, or use paper_split") from None
    except (OSError, EOFError, KeyError, TypeError, ValueError, BadZipFile) as error:
        raise InputError(
            f"{file} does not hold the authors' arrays {', '.join(wanted)} ({error}); put their own file there"
        ) from error
