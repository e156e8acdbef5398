"""Histories of training: metrics after every epoch, and weights of the best and the last one."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gar.errors import InputError
from gar.registry import METRICS
from gar.stack.data import SPLITS
from gar.stack.network import Layout, StackedMLP
from gar.stack.settings import TrainSettings


@dataclass(repr=False)
class History:
    """Metrics of every model after every epoch, and weights if they were asked for.

    ``metrics`` has shape ``(G, epochs, splits, metrics)``, splits and metrics in the order of :data:`SPLITS` and
    :data:`gar.registry.METRICS`, in the units of the table. It is NaN where nothing was measured: after a model failed or stopped,
    and for a split without rows.
    """

    layout: Layout
    metrics: np.ndarray
    epochs_run: np.ndarray
    """Epochs each model finished, ``(G,)``."""
    failed_epoch: np.ndarray
    """The epoch, counted from 0, in which a model's loss, weights or predictions ceased to be finite; -1 for none, ``(G,)``."""
    best_epoch: np.ndarray
    """The epoch best on the validation rows by ``keep_best`` (or ``monitor`` with patience alone); -1 for none, ``(G,)``."""
    best_weights: Tensor | None = None
    """Weights of the best epoch, ``(G, layout.length)``."""
    final_weights: Tensor | None = None
    """Weights of the last epoch, ``(G, layout.length)``."""
    is_cut: bool = False
    """Whether training was ended before its last epoch, as by a deadline. Such a history is not recorded."""

    @staticmethod
    def empty(layout: Layout, models: int, settings: TrainSettings, *, dtype: torch.dtype) -> "History":
        """Return a history in which nothing has been measured."""

        def weights(wanted: bool) -> Tensor | None:
            return torch.full((models, layout.length), torch.nan, dtype=dtype, device="cpu") if wanted else None

        return History(
            layout=layout,
            metrics=np.full((models, settings.epochs, len(SPLITS), len(METRICS)), np.nan),
            epochs_run=np.zeros(models, np.int64),
            failed_epoch=np.full(models, -1),
            best_epoch=np.full(models, -1),
            best_weights=weights(settings.keep_best is not None),
            final_weights=weights(settings.keep_final),
        )

    @property
    def is_complete(self) -> bool:
        """Return True if every model was trained to its end or failed; a search that ran out of time leaves some untouched."""
        return not self.is_cut and bool(np.all((self.epochs_run > 0) | (self.failed_epoch >= 0)))

    def __len__(self) -> int:
        return len(self.metrics)

    def __repr__(self) -> str:
        failed = int((self.failed_epoch >= 0).sum())
        return f"History(models={len(self)}, epochs={self.metrics.shape[1]}, sizes={self.layout.sizes}, failed={failed})"

    def of(self, split: str, metric: str) -> np.ndarray:
        """Return one metric on one split, ``(G, epochs)``."""
        return metric_column(self.metrics, split, metric)

    @property
    def best(self) -> StackedMLP:
        """Return all models with the weights of their best epoch; NaN for a model without one."""
        if self.best_weights is None:
            raise InputError("the best weights were not kept; train with TrainSettings(keep_best='mae') or another metric")
        return StackedMLP(self.layout, self.best_weights)

    @property
    def final(self) -> StackedMLP:
        """Return all models with the weights of their last epoch; NaN for a model that failed."""
        if self.final_weights is None:
            raise InputError("the final weights were not kept; train with TrainSettings(keep_final=True)")
        return StackedMLP(self.layout, self.final_weights)

    def arrays(self) -> dict[str, np.ndarray | Tensor]:
        """Return all arrays and tensors, which have one row per model, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray | Tensor)}

    def take(self, indices: np.ndarray) -> "History":
        """Return the history of the models at these indices, in this order."""
        values: dict[str, Any] = {name: value[indices] for name, value in self.arrays().items()}
        return replace(self, **values)

    def put(self, indices: np.ndarray, part: "History") -> None:
        """Enter the history of some models, which were trained apart, at their indices in this one."""
        for name, value in self.arrays().items():
            value[indices] = getattr(part, name)
        self.is_cut |= part.is_cut


def metric_column(values: np.ndarray, split: str, metric: str) -> np.ndarray:
    """Return one metric on one split of values ``(..., splits, metrics)``."""
    if split not in SPLITS or metric not in METRICS:
        raise InputError(f"there are splits {SPLITS} and metrics {tuple(METRICS)}, not {split!r} and {metric!r}")
    column: np.ndarray = values[..., SPLITS.index(split), METRICS[metric].index]
    return column


class HistoryRecorder:
    """Writes the history of a chunk while it is trained, and decides which models continue (early stopping, failures).

    In two-phase training the best epoch is one of the second phase: before, the head is untrained.
    """

    def __init__(self, history: History, settings: TrainSettings) -> None:
        self.history, self._settings = history, settings
        self.indices = np.arange(len(history))
        """The models in training, as indices into the history."""
        self.continuing = self.indices
        """Which of the models that were last recorded continue, as indices among these."""
        metric = settings.keep_best or settings.monitor
        self._best = _BestEpoch(len(history), metric)
        self._monitor = self._best if metric == settings.monitor else _BestEpoch(len(history), settings.monitor)
        self._first = min(settings.first_phase_epochs, settings.epochs - 1) if settings.is_two_phase else 0

    def record(self, epoch: int, metrics: np.ndarray, finite: np.ndarray, weights: Tensor, is_last: bool) -> None:
        """Enter metrics ``(G, splits, metrics)`` of the models in training; models that are not finite have failed.

        After the last epoch no model continues.
        """
        alive = self.indices[finite]
        self.history.failed_epoch[self.indices[~finite]] = epoch
        self.history.metrics[alive, epoch] = metrics[finite]
        self.history.epochs_run[alive] = epoch + 1
        continues = finite.copy()
        if epoch >= self._first and (self._settings.keep_best or self._settings.patience):
            improved = finite & self._best.update(self.indices, metrics, epoch)
            self.history.best_epoch[self.indices[improved]] = epoch
            self._copy_weights(self.history.best_weights, improved, weights)
            if self._monitor is not self._best:
                self._monitor.update(self.indices, metrics, epoch)
            if self._settings.patience is not None:
                continues &= epoch - self._monitor.epoch[self.indices] < self._settings.patience
        if is_last:
            self.history.is_cut = epoch + 1 < self._settings.epochs and bool(continues.any())
            continues[:] = False
        self._copy_weights(self.history.final_weights, finite & ~continues, weights)
        self.continuing = np.flatnonzero(continues)

    def drop_finished(self) -> None:
        """Forget the models that do not continue."""
        self.indices = self.indices[self.continuing]

    def _copy_weights(self, to: Tensor | None, chosen: np.ndarray, weights: Tensor) -> None:
        if to is not None and chosen.any():
            rows = torch.from_numpy(np.flatnonzero(chosen))
            to[torch.from_numpy(self.indices[chosen])] = weights[rows.to(weights.device)].to(to)


class _BestEpoch:
    """The best validation score so far by one metric, and its epoch, for every model."""

    def __init__(self, models: int, metric: str) -> None:
        self._metric, self._sign = metric, METRICS[metric].sign
        self._score = np.full(models, -np.inf)  # larger is better
        self.epoch = np.full(models, -1)

    def update(self, indices: np.ndarray, metrics: np.ndarray, epoch: int) -> np.ndarray:
        """Return which of the models at ``indices`` improved."""
        score = self._sign * metric_column(metrics, "valid", self._metric)
        improved: np.ndarray = score > self._score[indices]
        self._score[indices[improved]] = score[improved]
        self.epoch[indices[improved]] = epoch
        return improved
