"""What is checked before anything is trained, and the chunks of models that are trained together."""

import sys
from pathlib import Path

import numpy as np
import torch

from gar.errors import InputError
from gar.stack.data import StackData
from gar.stack.network import Layout
from gar.stack.settings import Models, TrainSettings

CHUNK_BYTES = 24 * 2**20
"""Memory of the models of a chunk, of which only hidden layers and weights are kept."""

FEATURES_CHUNK_BYTES = 128 * 2**20
"""Memory of a chunk for a loss on features. Such a loss takes one model after another and computes what depends on labels once for
all that share them, so larger chunks are faster; the limit is for memory."""

COLUMN_STEP = 32
"""Every row of activations fills whole vector registers: no model meets the scalar remainder loop of a kernel, whose last
bit may differ."""

_MEMORY = Path("/proc/meminfo")


def check_training(data: StackData, models: Models, settings: TrainSettings, dtype: torch.dtype) -> None:
    """Raise an error for everything that can be wrong, before anything is trained."""
    if dtype not in (torch.float32, torch.float64):
        raise InputError(f"dtype={dtype} is not supported; use torch.float32 or torch.float64")
    folds = np.unique(models.fold).tolist()
    for fold in folds:
        if fold >= len(data.folds):
            raise InputError(f"a model asks for fold {fold}, but data has {len(data.folds)}; use folds 0 to {len(data.folds) - 1}")
        rows = len(data.folds[fold].train)
        if settings.drop_last and rows < settings.batch_size:
            raise InputError(
                f"fold {fold} has {rows} training rows, fewer than batch_size={settings.batch_size}, and drop_last would drop them "
                f"all; use batch_size={rows} or less, or drop_last=False"
            )
    if data.pair_groups is not None and not settings.spec.takes("groups"):
        raise InputError(
            f"loss={settings.loss!r} compares no rows, so there is nothing to compare within pair_groups; leave them out, "
            "or use a loss that takes groups, such as 'gar'"
        )
    if models.parameter is not None and settings.spec.parameter is None:
        raise InputError(f"loss={settings.loss!r} has no parameter to tune, but models have one; leave parameter out")
    if models.parameter is not None and settings.spec.parameter in settings.loss_options:
        raise InputError(f"{settings.spec.parameter} is given to the models and in loss_options; leave it out of loss_options")
    if settings.keep_best is None and settings.patience is None:
        return
    for fold in folds:
        if data.count_labelled(data.folds[fold].valid) == 0:
            raise InputError(
                f"fold {fold} has no validation labels that count, which keep_best and patience need; give it some or turn them off"
            )


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
    """Return a lower bound: rows of the largest chunk's folds and their shuffled copy, weights, gradients and optimizer state.

    Expanded features of training rows are computed batch by batch, and so do not count.
    """
    largest = max(chunks(data, models, settings, limit=limit, dtype=dtype), key=len)
    folds = [data.folds[fold] for fold in set(models.fold[largest].tolist())]
    trained, evaluated = sum(len(fold.train) for fold in folds), sum(len(fold.valid) + len(fold.test) for fold in folds)
    copies, targets = 3 if settings.optimizer == "sgd" else 4, data.y.shape[1]
    numbers = 2 * trained * (data.x.shape[1] + targets) + evaluated * (data.inputs + targets)
    return (numbers + copies * len(largest) * settings.layout(data).length) * dtype.itemsize


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


def whole_columns(rows: int) -> int:
    """Return the number of columns that hold this many rows: the next multiple of :data:`COLUMN_STEP`."""
    return -(-rows // COLUMN_STEP) * COLUMN_STEP
