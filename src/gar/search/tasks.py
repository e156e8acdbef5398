"""One chunk as one task: what is sent to a worker, and what it does."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gar.stack import History, Models, StackData, TrainSettings, train

Table = Mapping[str, object]
"""The attributes of :class:`StackData`, tensors as arrays: joblib writes a large array to disk once, and every worker maps it
into its memory; a tensor would be copied for every task."""


@dataclass(frozen=True)
class Job:
    """What all chunks of a search share, besides the table."""

    settings: TrainSettings
    device: str | torch.device
    dtype: torch.dtype


def as_table(data: StackData) -> Table:
    return {name: _as_array(value) for name, value in vars(data).items()}


def as_data(table: Table) -> StackData:
    """The way back, as unpickling would go: the numbers were checked when the data were made."""
    data = StackData.__new__(StackData)
    vars(data).update({name: torch.from_numpy(_writable(v)) if isinstance(v, np.ndarray) else v for name, v in table.items()})
    data.folds = tuple(
        replace(fold, train=_writable(fold.train), valid=_writable(fold.valid), test=_writable(fold.test)) for fold in data.folds
    )
    return data


def train_chunk(number: int, table: Table, models: Models, job: Job) -> tuple[int, History]:
    """Train some models as one stack, in one thread: as many tasks as cores run side by side."""
    with one_thread():
        history = train(as_data(table), models, job.settings, device=job.device, dtype=job.dtype, chunk_size=len(models))
    return number, history


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _writable(array: np.ndarray) -> np.ndarray:
    """Torch warns of arrays that it could not write to, such as some backends deliver; only these are copied."""
    return np.require(array, requirements=["W"])


def _as_array(value: object) -> object:
    return value.numpy() if isinstance(value, Tensor) and value.dtype != torch.bfloat16 else value  # numpy has no bfloat16
