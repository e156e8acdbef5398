"""Whether a training fits into memory, before it starts: afterwards the system may end the process without a word."""

import sys
from pathlib import Path

import torch

from gar.errors import InputError
from gar.stack.data import StackData
from gar.stack.models import Models
from gar.stack.packing import chunks, network_layout
from gar.stack.settings import TrainSettings

_MEMORY = Path("/proc/meminfo")


def check_memory(
    data: StackData, models: Models, settings: TrainSettings, *, dtype: torch.dtype, chunk_size: int | None, workers: int = 1
) -> None:
    """An error if the largest chunk of each worker, and what is kept of all models, cannot fit."""
    available = available_bytes()
    if available is None or not len(models):
        return
    needed = kept_bytes(data, models, settings, dtype) + workers * chunk_bytes(data, models, settings, dtype, chunk_size)
    if needed > available:
        raise InputError(
            f"training needs about {needed / 2**30:.1f} GiB, but {available / 2**30:.1f} GiB are free; "
            f"use smaller hidden_sizes than {settings.hidden_sizes}, fewer workers than {workers}, or fewer rows than {len(data.x)}"
        )


def available_bytes() -> int | None:
    """Memory that a process can still get; None where the system does not say."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        lines = dict(line.split(":") for line in _MEMORY.read_text().splitlines())
        return int(lines["MemAvailable"].removesuffix("kB")) * 1024
    except (OSError, KeyError, ValueError):
        return None


def kept_bytes(data: StackData, models: Models, settings: TrainSettings, dtype: torch.dtype) -> int:
    """What the history holds of all models."""
    tables = (settings.keep_best is not None) + settings.keep_final
    return len(models) * network_layout(data, settings).length * dtype.itemsize * tables


def chunk_bytes(data: StackData, models: Models, settings: TrainSettings, dtype: torch.dtype, limit: int | None) -> int:
    """A lower bound: rows of a chunk's folds and their copy in the order of an epoch, weights, gradients and averages."""
    layout = network_layout(data, settings)
    most = max(chunks(data, models, settings, limit=limit, dtype=dtype), key=len)
    folds = [data.folds[fold] for fold in set(models.fold[most].tolist())]
    width = data.inputs + data.y.shape[1]
    rows = sum(2 * len(fold.train) + len(fold.valid) + len(fold.test) for fold in folds)
    tables = 3 if settings.optimizer == "sgd" else 4
    return (rows * width + tables * len(most) * layout.length) * dtype.itemsize
