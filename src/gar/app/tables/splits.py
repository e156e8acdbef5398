"""Split rows into train, validation and test parts: shuffled, or with groups kept together."""

from itertools import pairwise

import numpy as np
from sklearn.model_selection import GroupKFold, KFold

from gar.errors import InputError

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Row numbers of the train, validation and test parts of a fold."""


def shuffled_folds(rows: int, *, seed: int = 0, folds: int = 5, test: float = 0.2) -> list[Parts]:
    """Return row numbers ``(train, valid, test)`` of each fold: of shuffled rows a share is the test part, the others form folds.

    Example:
        >>> [len(part) for part in shuffled_folds(1030)[0]]
        [659, 165, 206]
    """
    order = np.random.default_rng(seed).permutation(rows)
    parts = consecutive_folds(rows, count_tested(rows, test, folds, "rows", fewest=2), folds)  # one row has no correlation
    return [(order[train], order[valid], order[tested]) for train, valid, tested in parts]


def resampled_folds(rows: int, *, seed: int = 0, folds: int = 3, test: float = 0.2, valid: int = 10_000) -> list[Parts]:
    """Return row numbers ``(train, valid, test)`` of each fold, for a large table: validation rows are drawn anew in each.

    There are at most ``valid`` of them, and a tenth of the rows that are not tested, so that most rows train.
    """
    generator = np.random.default_rng(seed)
    tested, rest = np.split(generator.permutation(rows), [count_tested(rows, test, folds, "rows", fewest=2)])
    drawn = [generator.permutation(rest) for _ in range(folds)]
    count = min(valid, len(rest) // 10)
    return [(order[count:], order[:count], tested) for order in drawn]


def ordered_folds(times: np.ndarray, *, folds: int = 5, test: float = 0.2) -> list[Parts]:
    """Return row numbers ``(train, valid, test)`` of each fold in order of time: the last rows are tested.

    The rows before are cut into consecutive blocks, each of which validates one fold. Rows of one time are never in two parts.
    """
    order = np.argsort(times, kind="stable")
    count_tested(len(np.unique(times)), test, folds, "different times", fewest=1)
    wanted = [round((1 - test) * part / folds * len(order)) for part in range(1, folds + 1)]
    cuts = [0, *np.searchsorted(times[order], times[order][wanted], side="left").tolist()]
    blocks, tested = [order[start:end] for start, end in pairwise(cuts)], order[cuts[-1] :]
    if min(map(len, blocks)) == 0:
        raise InputError(f"too many rows have the same time to cut them into folds={folds}; use fewer folds, or another column")
    rest = order[: cuts[-1]]
    return [(np.setdiff1d(rest, block), block, tested) for block in blocks]


def group_folds(groups: np.ndarray, *, seed: int = 0, folds: int = 5, test: float = 0.2) -> list[Parts]:
    """Return row numbers ``(train, valid, test)`` of each fold, with no group in two parts; a share of the groups is tested."""
    distinct = np.unique(groups)
    shuffled = np.random.default_rng(seed).permutation(distinct)
    tested = np.isin(groups, shuffled[: count_tested(len(distinct), test, folds, "groups", fewest=1)])
    rest, held_out = np.flatnonzero(~tested), np.flatnonzero(tested)
    cut = GroupKFold(folds, shuffle=True, random_state=seed).split(rest, groups=groups[rest])
    return [(rest[train], rest[valid], held_out) for train, valid in cut]


def consecutive_folds(rows: int, tested: int, folds: int) -> list[Parts]:
    """Return folds of rows in their own order: the first ``tested`` rows are the test part, the others are cut into folds."""
    cut = KFold(folds).split(np.arange(rows - tested))
    return [(train + tested, valid + tested, np.arange(tested)) for train, valid in cut]


def count_tested(items: int, test: float, folds: int, what: str, *, fewest: int) -> int:
    """Return the number of test rows or groups; raise an error if a part would have less than ``fewest``."""
    if not 0 < test < 1:
        raise InputError(f"test={test!r}; expected a share between 0 and 1, such as 0.2")
    count = max(fewest, int(test * items))
    if folds < 2 or items - count < fewest * folds:
        raise InputError(f"{what}: {items}, too few for a test part and folds={folds}; use fewer folds, 2 at least, or more {what}")
    return count
