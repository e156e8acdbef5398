"""From what scikit-learn hands over to what a stack is trained on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gar.errors import InputError
from gar.stack import StackData

Split = tuple[np.ndarray, np.ndarray]
"""Row numbers to train on, and to validate with."""


class Rows(NamedTuple):
    """Rows of a table: features, labels ``(rows, targets)``, and how often each counts."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def take(self, places: np.ndarray) -> "Rows":
        return Rows(self.x[places], self.y[places], self.weight[places])

    def everything(self) -> Split:
        """All rows to train on, none to validate with."""
        return np.arange(len(self.weight)), np.arange(0)

    def merged(self) -> "Rows":
        """Each distinct row that counts once, with the sum of its weights, in an order of its own.

        So it makes no difference, not even to the last bit, whether a row stands in the table twice or counts twice, nor in
        which order the rows stand.
        """
        kept = self.take(np.flatnonzero(self.weight > 0))
        distinct, place = np.unique(np.hstack([kept.x, kept.y]), axis=0, return_inverse=True)
        weight = np.bincount(place.reshape(-1), weights=kept.weight, minlength=len(distinct))
        columns = kept.x.shape[1]
        return Rows(distinct[:, :columns], distinct[:, columns:], weight)


def stack_data(rows: Rows, splits: Sequence[Split], *, scale_labels: bool = True) -> StackData:
    """A table in which every fold has its own merged rows, standardised with statistics of its training rows."""
    blocks: list[Rows] = []
    folds, start = [], 0
    for number, split in enumerate(splits):
        places = []
        for part in split:
            blocks.append(rows.take(part).merged())
            places.append(np.arange(start, start + len(blocks[-1].weight)))
            start += len(places[-1])
        if len(places[0]) == 0:
            raise InputError(f"no row of fold {number} counts in training: all its sample_weight are zero")
        folds.append((*places, np.arange(0)))
    x, y, weight = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    counts = None if np.all(weight == 1) else weight
    return StackData(x, y, folds, sample_weight=counts, scale_features=True, scale_labels=scale_labels)
