"""Networks that won, once more: their weights at the chosen epoch, and what their errors were made of on the way."""

from typing import NamedTuple

import numpy as np
import torch

from gar.losses import GARLoss
from gar.search.tasks import one_thread
from gar.stack import Models, StackData, StackedMLP, TrainSettings, train
from gar.stack.batches import scaled_rows


class Again(NamedTuple):
    """Networks, one per winner, and their components by name: ``(winners, epochs)``, NaN where training had ended."""

    networks: StackedMLP
    components: dict[str, np.ndarray]


def train_again(data: StackData, models: Models, settings: TrainSettings, epochs: np.ndarray) -> Again:
    """Train the winners as one small stack and take each as it was after its epoch.

    A search keeps no weights, since thousands of models would fill the disk. A few models trained again give the same numbers
    bit for bit, so nothing is lost.
    """
    watch = _Watch(data, models, settings, epochs)
    with one_thread():
        history = train(data, models, settings, observe=watch)
    assert watch.table is not None
    return Again(StackedMLP(history.layout, watch.table), watch.components)


class _Watch:
    """Looks at all models after every epoch."""

    def __init__(self, data: StackData, models: Models, settings: TrainSettings, epochs: np.ndarray) -> None:
        self._epochs = epochs
        self._loss = GARLoss(nan_policy="omit")
        like = torch.empty(0)
        folds = [data.folds[fold] for fold in models.fold.tolist()]
        self._valid = [scaled_rows(data, fold, fold.valid, like) for fold in folds]
        empty = np.full((len(models), settings.epochs), np.nan)
        self.components: dict[str, np.ndarray] = {name: empty.copy() for name in self._loss.settings.components}
        self.table: torch.Tensor | None = None

    def __call__(self, epoch: int, places: np.ndarray, networks: StackedMLP) -> None:
        if self.table is None:
            self.table = networks.table.new_full((len(self._epochs), networks.layout.length), torch.nan)
        for row, place in zip(networks.table, places.tolist(), strict=True):
            if self._epochs[place] == epoch:
                self.table[place] = row
            x, y = self._valid[place]
            predictions = StackedMLP(networks.layout, row[None])(x).predictions[0]
            for name, value in self._loss.components_of(predictions, y).items():
                self.components[name][place, epoch] = float(value)
