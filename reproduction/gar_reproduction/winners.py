"""What is kept of a unit's winners, which are trained once more: a search keeps no weights, and a few models give the same numbers
again, bit for bit."""

from dataclasses import replace

import numpy as np
import torch

from gar.metrics import METRICS
from gar.search import one_thread, select
from gar.search.selection import best_configuration
from gar.stack import Fold, History, Models, StackData, StackedMLP, train
from gar_reproduction.unit import Unit

JUDGE = "mae"
"""The metric that chooses whose curves are shown."""


def extras_of(unit: Unit, data: StackData, history: History) -> dict[str, np.ndarray]:
    """The further arrays of a unit's digest."""
    with one_thread():
        if unit.keeps == "curve":
            return _curves(unit, data, history)
        if unit.keeps == "moments":
            return _moments(unit, data, history)
    return {}


def best_combination(models: Models, last: np.ndarray) -> np.ndarray:
    """Places of the models, one per seed, of the combination with the least mean error after the last epoch; empty if all failed.

    That is how the paper's authors choose: by the error on the points that are not trained on, with no validation rows.

    Args:
        models: a grid over seeds.
        last: values after the last epoch, ``(G, metrics)``.
    """
    return best_configuration(models, last[:, METRICS.index(JUDGE)])


def _curves(unit: Unit, data: StackData, history: History) -> dict[str, np.ndarray]:
    """Values after the last epoch, points, truth, and of every winner its predictions and slopes, ``(seeds, points)``."""
    last = history.metrics[:, -1, 0].copy()
    places = best_combination(unit.models, last)
    x, y = (values[:, 0].double().numpy().copy() for values in (data.x, data.y))
    points = {"last": last, "x": x, "y": y, "trained": np.isin(np.arange(len(x)), data.folds[0].train)}
    empty = np.empty((0, len(data.x)), np.float32)
    if len(places) == 0:
        return points | {"winners": places, "predictions": empty, "slopes": empty}
    networks = train(data, unit.models.take(places), replace(unit.settings, keep_final=True)).final
    fitted = [_value_and_slope(networks, place, data.x) for place in range(len(networks))]
    return points | {
        "winners": places,
        "predictions": np.stack([value for value, _ in fitted]),
        "slopes": np.stack([slope for _, slope in fitted]),
    }


def _value_and_slope(networks: StackedMLP, place: int, x: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """One network and its derivative at all points, in double precision."""
    points = x.detach().double().clone().requires_grad_()  # a clone: the table itself must not learn of it
    value = networks.module(place).double()(points)
    (slope,) = torch.autograd.grad(value.sum(), points)
    return (value.detach()[:, 0].numpy().astype(np.float32), slope[:, 0].numpy().astype(np.float32))


def _moments(unit: Unit, data: StackData, history: History) -> dict[str, np.ndarray]:
    """Mean and standard deviation of the winners' predictions on the test rows after every epoch, ``(folds, epochs)``."""
    chosen = select(history, unit.models, JUDGE)
    models = unit.models.take(chosen.model)
    watch = _MomentsWatch(data, models, unit.settings.epochs)
    train(data, models, unit.settings, observe=watch)
    labels = np.stack([data.y[torch.from_numpy(fold.test)].double().numpy() for fold in watch.folds])
    return {"winners": chosen.model, "means": watch.means, "deviations": watch.deviations} | {
        "label_means": labels.mean(1).mean(1),
        "label_deviations": labels.std(1).mean(1),
    }


class _MomentsWatch:
    """Looks at predictions after every epoch."""

    def __init__(self, data: StackData, models: Models, epochs: int) -> None:
        self.folds: list[Fold] = [data.folds[fold] for fold in models.fold.tolist()]
        self._x = [data.x[torch.from_numpy(fold.test)].float() for fold in self.folds]
        self.means = np.full((len(models), epochs), np.nan, np.float32)
        self.deviations = self.means.copy()

    def __call__(self, epoch: int, places: np.ndarray, networks: StackedMLP) -> None:
        for row, place in zip(networks.weights, places.tolist(), strict=True):
            predictions = StackedMLP(networks.layout, row[None])(self._x[place]).predictions[0].double()
            self.means[place, epoch] = float(predictions.mean(0).mean())
            self.deviations[place, epoch] = float(predictions.std(0, correction=0).mean())
