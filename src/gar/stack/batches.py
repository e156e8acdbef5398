"""Mini-batches: which rows, in which order. Random numbers belong to (seed, fold), never to a place in a stack."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.errors import InputError
from gar.stack.data import Fold, StackData
from gar.stack.passes import whole_columns


def row_orders(seed: int, fold: int, rows: int) -> Iterator[np.ndarray]:
    """The order of a fold's training rows in one epoch after another, without end.

    Example:
        >>> [order.tolist() for order, _ in zip(row_orders(1, 0, 4), range(2))]
        [[0, 1, 2, 3], [3, 0, 2, 1]]
    """
    generator = np.random.default_rng([seed, fold])
    while True:
        yield generator.permutation(rows)


def batch_sizes(rows: int, batch_size: int, drop_last: bool, *, even: bool = False) -> tuple[int, ...]:
    """How many rows each batch of an epoch has.

    Example:
        >>> batch_sizes(9, 4, drop_last=False), batch_sizes(9, 4, drop_last=False, even=True)
        ((4, 4, 1), (3, 3, 3))
    """
    if even:
        count = -(-rows // batch_size)
        return tuple(len(part) for part in np.array_split(np.arange(rows), count))
    whole, rest = divmod(rows, batch_size)
    return (batch_size,) * whole + ((rest,) if rest and not drop_last else ())


def check_batches(data: StackData, folds: np.ndarray, batch_size: int, drop_last: bool) -> None:
    for place in np.unique(folds).tolist():
        if place >= len(data.folds):
            raise InputError(f"a model asks for fold {place}, but data has {len(data.folds)}; use folds 0 to {len(data.folds) - 1}")
        rows = len(data.folds[place].train)
        if drop_last and rows < batch_size:
            raise InputError(
                f"fold {place} has {rows} training rows, fewer than batch_size={batch_size}, and drop_last would drop them all; "
                f"use batch_size={rows} or less, or drop_last=False"
            )


class Batch(NamedTuple):
    """A mini-batch of every source: ``x (sources, features, columns)``, ``y (sources, targets, columns)``, weights
    ``(sources, columns)`` or None. The first ``rows`` columns count; the rest is zero."""

    x: Tensor
    y: Tensor
    weight: Tensor | None
    rows: int


class TrainRows:
    """Features, labels and weights of a fold's training rows, a column for each; a last column of zeros fills up batches."""

    def __init__(self, data: StackData, fold: Fold, like: Tensor) -> None:
        x, y = scaled_rows(data, fold, fold.train, like)
        self.x, self.y = (_with_zero_row(values).T.contiguous() for values in (x, y))
        weight = data.sample_weight
        self.weight = None if weight is None else _with_zero_row(weight[torch.from_numpy(fold.train)].to(like))


class Source:
    """The rows of one (fold, seed), shuffled anew in every epoch."""

    def __init__(self, rows: TrainRows, fold: int, seed: int, sizes: tuple[int, ...]) -> None:
        self.rows = rows
        self._filler = rows.x.shape[1] - 1
        self._orders = row_orders(seed, fold, self._filler)
        self._used, self._places = sum(sizes), _column_places(sizes)
        self._columns = sum(map(whole_columns, sizes))

    def next_order(self) -> Tensor:
        """Row numbers of all batches of the next epoch, one after another, each filled up to whole columns."""
        index = np.full(self._columns, self._filler)
        index[self._places] = next(self._orders)[: self._used]
        return torch.from_numpy(index).to(self.rows.x.device)


def _column_places(sizes: tuple[int, ...]) -> np.ndarray:
    """The columns that rows go to, batch after batch, each batch beginning with a whole step of columns."""
    starts = np.cumsum([0, *map(whole_columns, sizes)])
    return np.concatenate([start + np.arange(size) for start, size in zip(starts, sizes, strict=False)])


def _with_zero_row(values: Tensor) -> Tensor:
    return torch.cat([values, values.new_zeros(1, *values.shape[1:])])


def scaled_rows(data: StackData, fold: Fold, rows: np.ndarray, like: Tensor) -> tuple[Tensor, Tensor]:
    """Features and labels of some rows as a fold sees them, scaled before they are rounded to the dtype of training."""
    index = torch.from_numpy(rows)
    x, y = data.x[index], data.y[index]
    x = x if fold.features is None else fold.features.apply(x)
    y = y if fold.labels is None else fold.labels.apply(y)
    return x.to(like), y.to(like)


class Batches:
    """The mini-batches of several ``(fold, seed)``, which have batches of equal sizes."""

    def __init__(self, data: StackData, sources: list[tuple[int, int]], sizes: tuple[int, ...], like: Tensor) -> None:
        self.sizes = sizes
        rows = {fold: TrainRows(data, data.folds[fold], like) for fold, _ in sources}
        self._sources = [Source(rows[fold], fold, seed, sizes) for fold, seed in sources]
        columns = sum(map(whole_columns, sizes))
        self._x, self._y = (like.new_empty(len(sources), width, columns) for width in (data.inputs, data.y.shape[1]))

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the next epoch, in the memory of those of the last."""
        pairs, x, y = [(source.rows, source.next_order()) for source in self._sources], self._x, self._y
        for place, (rows, order) in enumerate(pairs):
            torch.index_select(rows.x, 1, order, out=x[place])
            torch.index_select(rows.y, 1, order, out=y[place])
        weights = [rows.weight.index_select(0, order) for rows, order in pairs if rows.weight is not None]
        weight = torch.stack(weights) if weights else None
        start = 0
        for size in self.sizes:
            stop = start + whole_columns(size)
            yield Batch(x[:, :, start:stop], y[:, :, start:stop], None if weight is None else weight[:, start:stop], size)
            start = stop
