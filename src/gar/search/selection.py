"""Selection by validation rows: the winning model and epoch of every fold, and their scores."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gar.errors import InputError
from gar.registry import METRICS
from gar.stack import Models
from gar.stack.history import metric_column

_PRECEDENCE = ("seed", "learning_rate", "weight_decay", "parameter")
"""Of two models with equal scores, the one that is smaller in the first of these in which they differ wins."""


class Measured(Protocol):
    """Metrics of models after every epoch, or every other step of training, in the form of a :class:`gar.stack.History`."""

    metrics: np.ndarray
    failed_epoch: np.ndarray

    def __len__(self) -> int: ...
    def of(self, split: str, metric: str) -> np.ndarray: ...


@dataclass(frozen=True)
class Selection:
    """The winner of every fold, in the order of folds.

    Example:
        >>> import numpy as np
        >>> chosen = Selection("mae", np.arange(2), np.array([3, 5]), np.array([9, 7]), np.arange(20.0).reshape(2, 2, 5))
        >>> chosen.of("test", "mae"), chosen.mean("test", "mae"), chosen.std("test", "mae")
        (array([ 5., 15.]), 10.0, 5.0)
    """

    metric: str
    """The metric of the selection."""
    fold: np.ndarray
    """Indices of the folds, ``(F,)``."""
    model: np.ndarray
    """Index of each fold's winner among the models, ``(F,)``."""
    epoch: np.ndarray
    """Epoch of each winner, counted from 0, ``(F,)``."""
    values: np.ndarray
    """All metrics of the winners, ``(F, splits, metrics)`` in the order of a history."""

    def of(self, split: str, metric: str) -> np.ndarray:
        """Return one metric of the winners on one split, ``(F,)``."""
        return metric_column(self.values, split, metric)

    def mean(self, split: str, metric: str) -> float:
        """Return the mean over folds."""
        return float(self.of(split, metric).mean())

    def std(self, split: str, metric: str) -> float:
        """Return the standard deviation over folds, divided by their number as in the paper."""
        return float(self.of(split, metric).std())


def select(history: Measured, models: Models, metric: str) -> Selection:
    """Return for every fold the model and epoch that are best on its validation rows by ``metric``.

    Any epoch with a finite score takes part, also those of a model before it failed or stopped. Of equal scores the one with the
    smaller seed wins, then learning rate, decay, parameter, then the earlier epoch; so the order of ``models`` does not matter.

    Args:
        history: the history of training or a search.
        models: the models of the history, in the same order.
        metric: ``"mae"`` or ``"rmse"``, where smaller is better, ``"pearson"``, ``"spearman"`` or ``"r2"``, where larger is.

    Example:
        >>> import numpy as np
        >>> from gar.stack import StackData, TrainSettings, train
        >>> x = np.random.default_rng(0).normal(size=(60, 3))
        >>> data = StackData(x, x.sum(1), [(np.arange(40), np.arange(40, 50), np.arange(50, 60))])
        >>> models = Models.grid(learning_rates=(0.1, 1e-5))
        >>> select(train(data, models, TrainSettings(epochs=5, batch_size=20)), models, "mae").model
        array([0])
    """
    if len(history) != len(models):
        raise InputError(f"history has {len(history)} models, models {len(models)}; pass the models that the history is of")
    if len(models) == 0:
        raise InputError("there are no models to select from; train at least one")
    cost = history.of("valid", metric) * -METRICS[metric].sign
    cost = np.where(np.isfinite(cost), cost, np.inf)
    folds = np.unique(models.fold)
    winners = [_winner(cost, _in_order(models, fold)) for fold in folds.tolist()]
    for fold, (model, epoch) in zip(folds.tolist(), winners, strict=True):
        if np.isinf(cost[model, epoch]):
            raise _nothing_to_select(history, models, metric, fold)
    model, epoch = np.array(winners).T
    return Selection(metric, folds, model, epoch, history.metrics[model, epoch])


def best_configuration(models: Models, cost: np.ndarray) -> np.ndarray:
    """Return the indices of the models, one per seed, of the learning rate, decay and parameter with the smallest mean cost.

    Of equal means the smaller hyperparameters win. Empty if no mean is finite.

    Args:
        models: a grid over seeds.
        cost: cost of each model, ``(G,)``; smaller is better.
    """
    parameters = np.zeros(len(models)) if models.parameter is None else models.parameter
    indices: dict[tuple[float, ...], list[int]] = {}
    for index, key in enumerate(zip(models.learning_rate, models.weight_decay, parameters, strict=True)):
        indices.setdefault(key, []).append(index)
    means = {key: float(np.mean(cost[own])) for key, own in indices.items()}
    finite = {key: mean for key, mean in means.items() if np.isfinite(mean)}
    return np.array(indices[min(finite, key=lambda key: (finite[key], key))] if finite else [], dtype=np.int64)


def _in_order(models: Models, fold: int) -> np.ndarray:
    """Return the indices of a fold's models, in an order that depends on the models alone."""
    own = np.flatnonzero(models.fold == fold)
    columns = {name: column[own] for name, column in models.columns().items()}
    first = [columns.pop(name) for name in _PRECEDENCE if name in columns]
    return np.asarray(own[np.lexsort([*columns.values(), *reversed(first)])])  # the last key is the first to be looked at


def _winner(cost: np.ndarray, indices: np.ndarray) -> tuple[int, int]:
    """Return model and epoch of the smallest cost, the first of equals."""
    row, epoch = np.unravel_index(cost[indices].argmin(), (len(indices), cost.shape[1]))
    return int(indices[row]), int(epoch)


def _nothing_to_select(history: Measured, models: Models, metric: str, fold: int) -> InputError:
    own = models.fold == fold
    if (history.failed_epoch[own] == 0).all():
        return InputError(f"all {own.sum()} models of fold {fold} failed in their first epoch; use smaller learning rates")
    return InputError(f"no model of fold {fold} has a validation {metric}; give the fold validation rows with labels")
