"""Who is still in training, what was measured, and which epoch was best."""

import numpy as np
import torch
from torch import Tensor

from gar.metrics import LARGER_IS_BETTER, METRICS
from gar.stack.data import SPLITS
from gar.stack.history import History
from gar.stack.settings import TrainSettings


class Tracker:
    """Writes the history of a chunk, and tells which models go on.

    In two-phase training the search for the best epoch begins with the second phase: before, the head is untrained.
    """

    def __init__(self, history: History, settings: TrainSettings) -> None:
        self.history, self._settings = history, settings
        self.places = np.arange(len(history))
        """The models in training, as places in the history."""
        self.going_on = self.places
        """Which of the models that were last recorded go on, as places among these."""
        metric = settings.keep_best or settings.monitor
        self._best = _Best(len(history), metric)
        self._monitor = self._best if metric == settings.monitor else _Best(len(history), settings.monitor)
        self._first = min(settings.first_phase, settings.epochs - 1) if settings.is_two_phase else 0

    def record(self, epoch: int, metrics: np.ndarray, finite: np.ndarray, table: Tensor) -> None:
        """Enter metrics ``(G, splits, metrics)`` of the models in training; those that are not finite have failed."""
        alive = self.places[finite]
        self.history.failed_epoch[self.places[~finite]] = epoch
        self.history.metrics[alive, epoch] = metrics[finite]
        self.history.epochs_run[alive] = epoch + 1
        goes_on = finite.copy()
        if epoch >= self._first and (self._settings.keep_best or self._settings.patience):
            improved = finite & self._best.update(self.places, metrics, epoch)
            self._remember(improved, epoch, table)
            if self._monitor is not self._best:
                self._monitor.update(self.places, metrics, epoch)
            if self._settings.patience is not None:
                goes_on &= epoch - self._monitor.epoch[self.places] < self._settings.patience
        self._finish(finite & (~goes_on | (epoch + 1 == self._settings.epochs)), table)
        self.going_on = np.flatnonzero(goes_on)

    def keep_going(self) -> None:
        """Forget the models that do not go on."""
        self.places = self.places[self.going_on]

    def _remember(self, improved: np.ndarray, epoch: int, table: Tensor) -> None:
        self.history.best_epoch[self.places[improved]] = epoch
        if self.history.best_table is not None:
            _copy_rows(self.history.best_table, self.places, table, improved)

    def _finish(self, done: np.ndarray, table: Tensor) -> None:
        if self.history.final_table is not None:
            _copy_rows(self.history.final_table, self.places, table, done)


class _Best:
    """The best validation value so far of one metric, and its epoch, for every model."""

    def __init__(self, models: int, metric: str) -> None:
        self._column = METRICS.index(metric)
        self._sign = -1.0 if LARGER_IS_BETTER[metric] else 1.0
        self._value = np.full(models, np.inf)
        self.epoch = np.full(models, -1)

    def update(self, places: np.ndarray, metrics: np.ndarray, epoch: int) -> np.ndarray:
        """Which of the models at ``places`` improved."""
        value = self._sign * metrics[:, SPLITS.index("valid"), self._column]
        improved: np.ndarray = value < self._value[places]
        self._value[places[improved]] = value[improved]
        self.epoch[places[improved]] = epoch
        return improved


def _copy_rows(to: Tensor, places: np.ndarray, table: Tensor, chosen: np.ndarray) -> None:
    if chosen.any():
        rows = torch.from_numpy(np.flatnonzero(chosen))
        to[torch.from_numpy(places[chosen])] = table[rows.to(table.device)].to(to)
