"""Which models are trained together: those with batches of equal sizes, as many as stay in cache."""

import numpy as np
import torch

from gar.stack.batches import batch_sizes
from gar.stack.data import StackData
from gar.stack.models import Models
from gar.stack.network import Layout
from gar.stack.passes import whole_columns
from gar.stack.settings import TrainSettings

CACHE_BYTES = 10 * 2**20
"""Memory that the models of a block should share. Measured: much less and Python's own time shows, much more and activations
travel to main memory and back."""

CHUNK_BYTES = 24 * 2**20
"""The same for a chunk, of which only the hidden layers and weights are kept."""

FEATURES_CHUNK_BYTES = 128 * 2**20
"""The same for a loss on features: it takes one model after another, and what it makes of labels serves all that share them. So the
more the better; this is for memory."""


def fold_sizes(data: StackData, fold: int, settings: TrainSettings) -> tuple[int, ...]:
    """Batch sizes of an epoch of this fold."""
    return batch_sizes(len(data.folds[fold].train), settings.batch_size, settings.drop_last, even=settings.even_batches)


def chunks(data: StackData, models: Models, settings: TrainSettings, *, limit: int | None, dtype: torch.dtype) -> list[np.ndarray]:
    """Places of models, chunk by chunk. A chunk's folds have equal batches, and models that read the same rows are neighbours.

    ``limit`` is the largest number of models in a chunk; None chooses it for the cache. It changes no result.
    """
    sizes = [fold_sizes(data, fold, settings) for fold in models.fold.tolist()]
    order = sorted(range(len(models)), key=lambda g: (sizes[g], models.fold[g], models.seed[g], g))
    groups: dict[tuple[int, ...], list[int]] = {}
    for g in order:
        groups.setdefault(sizes[g], []).append(g)
    result = []
    for shape, group in groups.items():
        most = limit or models_in_chunk(network_layout(data, settings), max(shape), settings, dtype)
        parts = -(-len(group) // most)
        result += np.array_split(np.array(group), parts)
    return result


def network_layout(data: StackData, settings: TrainSettings) -> Layout:
    return Layout((data.inputs, *settings.hidden_sizes, data.y.shape[1]), settings.activation, settings.gates)


def models_in_cache(layout: Layout, columns: int, dtype: torch.dtype) -> int:
    """How many models are worked on at a time, so that what they need stays in cache; at least one."""
    widths = layout.sizes[1:]
    numbers = columns * (sum(widths) + 3 * max(widths)) + 4 * layout.length
    return max(1, CACHE_BYTES // (numbers * dtype.itemsize))


def models_in_chunk(layout: Layout, rows: int, settings: TrainSettings, dtype: torch.dtype) -> int:
    """How many models share a step; at least one."""
    numbers = whole_columns(rows) * sum(layout.sizes[1:]) + 4 * layout.length
    if "features" not in settings.spec.inputs:
        return max(1, CHUNK_BYTES // (numbers * dtype.itemsize))
    numbers += 2 * rows * rows  # what such a loss may keep of all pairs of rows, between its value and its gradient
    return max(1, FEATURES_CHUNK_BYTES // (numbers * dtype.itemsize))
