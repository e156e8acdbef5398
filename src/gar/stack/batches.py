"""Chunks of models that are trained together, and mini-batches of the rows that they read.

Random numbers belong to ``(seed, fold)``, never to an index in a stack.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.errors import InputError
from gar.stack.data import Fold, StackData
from gar.stack.network import Layout
from gar.stack.passes import whole_columns
from gar.stack.settings import Models, TrainSettings

CHUNK_BYTES = 24 * 2**20
"""Memory of the models of a chunk, of which only hidden layers and weights are kept."""

FEATURES_CHUNK_BYTES = 128 * 2**20
"""Memory of a chunk for a loss on features. Such a loss takes one model after another and computes what depends on labels once for
all that share them, so larger chunks are faster; the limit is for memory."""

_MEMORY = Path("/proc/meminfo")


# ---- Chunks of models


def check_memory(
    data: StackData, models: Models, settings: TrainSettings, *, dtype: torch.dtype, chunk_size: int | None, workers: int = 1
) -> None:
    """Raise an error if training cannot fit into memory; once started, the system may kill the process without a message."""
    available = available_bytes()
    if available is None or not len(models):
        return
    kept = (settings.keep_best is not None) + settings.keep_final
    history = len(models) * settings.layout(data).length * dtype.itemsize * kept
    needed = history + workers * _chunk_bytes(data, models, settings, dtype, chunk_size)
    if needed > available:
        raise InputError(
            f"training needs about {needed / 2**30:.1f} GiB, but {available / 2**30:.1f} GiB are free; "
            f"use smaller hidden_sizes than {settings.hidden_sizes}, fewer workers than {workers}, or fewer rows than {len(data.x)}"
        )


def available_bytes() -> int | None:
    """Return the memory that a process can still get; None where the system does not report it."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        lines = dict(line.split(":") for line in _MEMORY.read_text().splitlines())
        return int(lines["MemAvailable"].removesuffix("kB")) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _chunk_bytes(data: StackData, models: Models, settings: TrainSettings, dtype: torch.dtype, limit: int | None) -> int:
    """Return a lower bound: rows of the largest chunk's folds and their shuffled copy, weights, gradients and optimizer state."""
    largest = max(chunks(data, models, settings, limit=limit, dtype=dtype), key=len)
    folds = [data.folds[fold] for fold in set(models.fold[largest].tolist())]
    rows = sum(2 * len(fold.train) + len(fold.valid) + len(fold.test) for fold in folds)
    copies = 3 if settings.optimizer == "sgd" else 4
    numbers = rows * (data.inputs + data.y.shape[1]) + copies * len(largest) * settings.layout(data).length
    return numbers * dtype.itemsize


def chunks(data: StackData, models: Models, settings: TrainSettings, *, limit: int | None, dtype: torch.dtype) -> list[np.ndarray]:
    """Return the indices of models, chunk by chunk.

    A chunk's folds have equal batch sizes, and models that read the same rows are neighbours. ``limit`` is the largest number of
    models in a chunk; None chooses it for the cache. It changes no result.
    """
    sizes = [fold_batch_sizes(data, fold, settings) for fold in models.fold.tolist()]
    order = sorted(range(len(models)), key=lambda g: (sizes[g], models.fold[g], models.seed[g], g))
    groups: dict[tuple[int, ...], list[int]] = {}
    for g in order:
        groups.setdefault(sizes[g], []).append(g)
    result = []
    for shape, group in groups.items():
        most = limit or models_in_chunk(settings.layout(data), max(shape), settings, dtype)
        parts = -(-len(group) // most)
        result += np.array_split(np.array(group), parts)
    return result


def fold_batch_sizes(data: StackData, fold: int, settings: TrainSettings) -> tuple[int, ...]:
    """Return the batch sizes of an epoch of this fold."""
    return batch_sizes(len(data.folds[fold].train), settings.batch_size, settings.drop_last, even=settings.even_batches)


def batch_sizes(rows: int, batch_size: int, drop_last: bool, *, even: bool = False) -> tuple[int, ...]:
    """Return the number of rows of each batch of an epoch.

    Example:
        >>> batch_sizes(9, 4, drop_last=False), batch_sizes(9, 4, drop_last=False, even=True)
        ((4, 4, 1), (3, 3, 3))
    """
    if even:
        count = -(-rows // batch_size)
        return tuple(len(part) for part in np.array_split(np.arange(rows), count))
    whole, rest = divmod(rows, batch_size)
    return (batch_size,) * whole + ((rest,) if rest and not drop_last else ())


def models_in_chunk(layout: Layout, rows: int, settings: TrainSettings, dtype: torch.dtype) -> int:
    """Return how many models share a step; at least one."""
    numbers = whole_columns(rows) * sum(layout.sizes[1:]) + 4 * layout.length
    if "features" not in settings.spec.inputs:
        return max(1, CHUNK_BYTES // (numbers * dtype.itemsize))
    numbers += 2 * rows * rows  # such a loss may keep two numbers per pair of rows, between its value and its gradient
    return max(1, FEATURES_CHUNK_BYTES // (numbers * dtype.itemsize))


# ---- Mini-batches of rows


class Batch(NamedTuple):
    """A mini-batch of every source: ``x (sources, features, columns)``, ``y (sources, targets, columns)``, weights
    ``(sources, columns)`` or None. The first ``rows`` columns count; the rest is zero."""

    x: Tensor
    y: Tensor
    weight: Tensor | None
    rows: int


class Batches:
    """The mini-batches of several sources ``(fold, seed)``, which have equal batch sizes."""

    def __init__(self, data: StackData, sources: list[tuple[int, int]], settings: TrainSettings, like: Tensor) -> None:
        self.sizes = fold_batch_sizes(data, sources[0][0], settings)
        rows = {fold: _TrainRows(data, data.folds[fold], like) for fold, _ in sources}
        self._sources = [_Source(rows[fold], fold, seed, self.sizes) for fold, seed in sources]
        columns = sum(map(whole_columns, self.sizes))
        self._x, self._y = (like.new_empty(len(sources), width, columns) for width in (data.inputs, data.y.shape[1]))

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of the next epoch, in the memory of the last epoch's."""
        pairs, x, y = [(source.rows, source.next_order()) for source in self._sources], self._x, self._y
        for index, (rows, order) in enumerate(pairs):
            torch.index_select(rows.x, 1, order, out=x[index])
            torch.index_select(rows.y, 1, order, out=y[index])
        weights = [rows.weight.index_select(0, order) for rows, order in pairs if rows.weight is not None]
        weight = torch.stack(weights) if weights else None
        start = 0
        for size in self.sizes:
            stop = start + whole_columns(size)
            yield Batch(x[:, :, start:stop], y[:, :, start:stop], None if weight is None else weight[:, start:stop], size)
            start = stop


class _TrainRows:
    """Features, labels and weights of a fold's training rows, a column for each; a last column of zeros pads batches."""

    def __init__(self, data: StackData, fold: Fold, like: Tensor) -> None:
        x, y = data.scaled_rows(fold, fold.train, like)
        self.x, self.y = (_with_zero_row(values).T.contiguous() for values in (x, y))
        weight = data.sample_weight
        self.weight = None if weight is None else _with_zero_row(weight[torch.from_numpy(fold.train)].to(like))


def _with_zero_row(values: Tensor) -> Tensor:
    return torch.cat([values, values.new_zeros(1, *values.shape[1:])])


class _Source:
    """The training rows of one ``(fold, seed)``, shuffled anew in every epoch."""

    def __init__(self, rows: _TrainRows, fold: int, seed: int, sizes: tuple[int, ...]) -> None:
        self.rows = rows
        self._padding = rows.x.shape[1] - 1
        self._orders = row_orders(seed, fold, self._padding)
        starts = np.cumsum([0, *map(whole_columns, sizes)])
        self._columns = np.concatenate([start + np.arange(size) for start, size in zip(starts, sizes, strict=False)])
        """Columns that rows are copied to, batch after batch; each batch begins at a multiple of the column step."""
        self._used, self._total = sum(sizes), int(starts[-1])

    def next_order(self) -> Tensor:
        """Return the row indices of all batches of the next epoch, one after another, each padded to whole columns."""
        indices = np.full(self._total, self._padding)
        indices[self._columns] = next(self._orders)[: self._used]
        return torch.from_numpy(indices).to(self.rows.x.device)


def row_orders(seed: int, fold: int, rows: int) -> Iterator[np.ndarray]:
    """Yield the order of a fold's training rows in one epoch after another, without end.

    Example:
        >>> [order.tolist() for order, _ in zip(row_orders(1, 0, 4), range(2))]
        [[0, 1, 2, 3], [3, 0, 2, 1]]
    """
    generator = np.random.default_rng([seed, fold])
    while True:
        yield generator.permutation(rows)
