"""An experiment cell: one method, or a variant of one, on one task. It is the smallest thing that is run and recorded."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from torch import Tensor

from gar.registry import LOSSES
from gar.search import one_thread
from gar.search.fingerprints import fingerprint
from gar.stack import Models, StackData, TrainSettings, batch_sizes, train

Recorded = Literal["scores", "curve", "moments"]
"""What a record holds: scores alone, or also the fitted curves, or means and deviations of predictions during training."""

FORMAT = 2
"""Format of records; bump it to invalidate older ones."""

_BATCHES, _MODELS = 4, 12
"""Size of the short training that measures this machine."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """Describes what to run.

    Args:
        experiment: its name.
        task: name of the table or curve.
        variant: name of the method, or of what is varied; also the name of the record.
        title: the variant for people.
        load: returns the table and its folds. It is called only when something has to be computed.
        models: the grid.
        settings: of training.
        recorded: what the record holds.
        origin: returns sentences about the data, which go into the record.
    """

    experiment: str
    task: str
    variant: str
    title: str
    load: Callable[[], StackData]
    models: Models
    settings: TrainSettings
    recorded: Recorded = "scores"
    origin: Callable[[], Sequence[str]] = tuple

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.task}/{self.variant}"

    @property
    def plan(self) -> str:
        """Fingerprint of everything but the data; pages are rendered with it alone."""
        return fingerprint((FORMAT, self.recorded, self.settings, self.models.columns()))

    def key(self, data: StackData) -> str:
        """Return the fingerprint of everything that determines the record. The version of ``gar`` is not part of it."""
        return fingerprint((self.plan, [_rounded(part) for part in (data.x, data.y, data.sample_weight, *data.folds)]))


def _rounded(value: Any) -> Any:
    """Round to single precision, as models see data: the last bits of means and deviations differ between machines."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.float()
    return {field.name: _rounded(getattr(value, field.name)) for field in fields(value)} if is_dataclass(value) else value


def flops(data: StackData, models: Models, settings: TrainSettings) -> float:
    """Count multiplications and additions of all matrix products: twice the weights forward, four times backward, for each row.

    The losses' own work is not counted: little for most, more for those on pairs of features.
    """
    weights = sum(one * other for one, other in pairwise(_sizes(data, settings)))
    total = 0.0
    for number in models.fold.tolist():
        fold = data.folds[number]
        trained = sum(batch_sizes(len(fold.train), settings.batch_size, settings.drop_last))
        total += 2.0 * weights * (3 * trained + len(fold.valid) + len(fold.test))
    return total * settings.epochs


def _sizes(data: StackData, settings: TrainSettings) -> tuple[int, ...]:
    return (data.inputs, *settings.hidden_sizes, data.y.shape[1])


def estimated_seconds(cell: Cell, data: StackData, *, workers: int) -> float:
    """Estimate how long a cell takes on this machine: its operations over the measured rate of its loss, network and batches."""
    settings = cell.settings
    rate = _rate(settings.loss, _sizes(data, settings), settings.batch_size, settings.optimizer)
    return flops(data, cell.models, settings) / rate / workers


@cache
def _rate(loss: str, sizes: tuple[int, ...], batch_size: int, optimizer: Any) -> float:
    """Return operations per second of one process, from a short training on random numbers.

    A loss of features alone is timed for the half of the epochs that it trains.
    """
    inputs, *hidden, targets = sizes
    rows = _BATCHES * batch_size
    rng = np.random.default_rng(0)
    data = StackData(
        rng.normal(size=(2 * rows, inputs)),
        rng.normal(size=(2 * rows, targets)),
        [(np.arange(rows), np.arange(rows, rows + rows // 4), np.arange(rows + rows // 4, 2 * rows))],
    )
    settings = TrainSettings(hidden_sizes=tuple(hidden), batch_size=batch_size, optimizer=optimizer, loss=loss, epochs=2)
    models = Models(learning_rate=np.full(_MODELS, 1e-5), parameter=None if LOSSES[loss].parameter is None else 1.0)
    with one_thread():
        start = time.perf_counter()
        train(data, models, settings)
        return flops(data, models, settings) / (time.perf_counter() - start)
