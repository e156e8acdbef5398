"""How long a unit will take on this machine, before it is run."""

import time
from functools import cache

import numpy as np

from gar.losses import registry
from gar.search import one_thread
from gar.stack import Models, StackData, TrainSettings, train
from gar_reproduction.unit import Unit, flops

_BATCHES, _MODELS = 4, 12


def seconds(unit: Unit, data: StackData, *, workers: int) -> float:
    """Matrix operations of the unit over this machine's rate for its loss, network and batches."""
    settings = unit.settings
    rate = _rate(settings.loss, (data.inputs, *settings.hidden_sizes, data.y.shape[1]), settings.batch_size, settings.optimizer)
    return flops(unit, data) / rate / workers


@cache
def _rate(loss: str, sizes: tuple[int, ...], batch_size: int, optimizer: str) -> float:
    """Operations per second of one process, by a short training of random numbers. A loss of features alone is timed for the half
    of the epochs that it trains."""
    inputs, *hidden, targets = sizes
    rows = _BATCHES * batch_size
    rng = np.random.default_rng(0)
    data = StackData(
        rng.normal(size=(2 * rows, inputs)),
        rng.normal(size=(2 * rows, targets)),
        [(np.arange(rows), np.arange(rows, rows + rows // 4), np.arange(rows + rows // 4, 2 * rows))],
    )
    settings = TrainSettings(hidden_sizes=tuple(hidden), batch_size=batch_size, optimizer=optimizer, loss=loss, epochs=2)  # type: ignore[arg-type]
    models = Models(learning_rate=np.full(_MODELS, 1e-5), parameter=None if registry[loss].parameter is None else 1.0)
    unit = Unit(experiment="", task="", variant="", title="", load=lambda: data, models=models, settings=settings)
    with one_thread():
        start = time.perf_counter()
        train(data, models, settings)
        return flops(unit, data) / (time.perf_counter() - start)
