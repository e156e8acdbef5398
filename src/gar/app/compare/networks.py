"""Networks as a family: stacks trained by :func:`gar.search.search`, and their winners as one model."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from gar.app.compare.families import Trial, Winners
from gar.app.compare.options import NETWORKS, Options
from gar.app.compare.preparing import Prepared
from gar.app.models import TableModel
from gar.losses import GARLoss, registry
from gar.search import RunContext, Selection, retrain, search
from gar.search.fingerprints import run_key
from gar.stack import Fold, History, Models, Scaling, StackData, StackedMLP, TrainSettings


class Searched(NamedTuple):
    """All models of a search that got to its end."""

    models: Models
    settings: TrainSettings
    history: History
    seconds: float


def search_networks(data: StackData, models: Models, settings: TrainSettings, run: RunContext, *, where: str) -> Searched | None:
    """Train all models; None if time was up before all were done."""
    with run.stopwatch(run_key(data, settings, device="cpu", dtype=torch.float32)) as watch:
        history = search(data, models, settings, context=run.labelled(f"{where}: {settings.spec.title:<16}"))
        return Searched(models, settings, history, watch.seconds) if history.is_complete else None


class Networks:
    """Multi-layer perceptrons, with every loss there is."""

    name = NETWORKS
    losses = tuple(registry)

    def title_of(self, loss: str) -> str:
        return registry[loss].title

    def check(self) -> None:
        """All that networks need is always there."""

    def attempt(self, loss: str, prepared: Prepared, options: Options, run: RunContext) -> Trial | None:
        models = options.models(loss, folds=options.folds)
        found = search_networks(prepared.data, models, self._settings(loss, prepared, options), run, where=prepared.source.name)
        return None if found is None else Trial(loss, self.name, self.title_of(loss), models, found.history, found.seconds)

    def train_again(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        settings, folds = self._settings(trial.loss, prepared, options), prepared.data.folds
        models = trial.models.take(best.model)
        watch = ComponentWatch(prepared.data, models, settings)
        networks = retrain(prepared.data, models, settings, best.epoch, observe=watch)
        model = TableModel(
            networks=networks,
            encoders=prepared.encoders,
            features=[_plain(fold) for fold in folds],
            labels=[fold.labels for fold in folds],
            targets=prepared.source.targets,
            about=trial.about(prepared, best.metric),
        )
        return Winners(model, watch.components)

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        settings, recipe = self._settings("mae", prepared, options), options.recipe()
        return {
            "network": [prepared.data.x.shape[1], *settings.hidden_sizes, len(prepared.source.targets)],
            "epochs": settings.epochs,
            "batch_size": settings.batch_size,
            "optimizer": settings.optimizer,
            "schedule": settings.schedule,
            "learning_rates": list(recipe["learning_rates"]),
            "weight_decays": list(recipe["weight_decays"]),
        }

    @staticmethod
    def _settings(loss: str, prepared: Prepared, options: Options) -> TrainSettings:
        return options.settings(loss, features=prepared.data.x.shape[1], train_rows=prepared.train_rows)


def _plain(fold: Fold) -> Scaling | None:
    """How features are scaled, which is all that is done to them in a comparison, and all that a saved model knows."""
    assert fold.features is None or isinstance(fold.features, Scaling)
    return fold.features


class ComponentWatch:
    """Records GAR's three components of all models on their validation rows after every epoch: ``(models, epochs)`` by name.

    NaN stands where training had ended.
    """

    def __init__(self, data: StackData, models: Models, settings: TrainSettings) -> None:
        self._loss = GARLoss(nan_policy="omit")
        folds = [data.folds[fold] for fold in models.fold.tolist()]
        self._valid = [data.scaled_rows(fold, fold.valid, torch.empty(0)) for fold in folds]
        empty = np.full((len(models), settings.epochs), np.nan)
        self.components: dict[str, np.ndarray] = {name: empty.copy() for name in self._loss.settings.components}

    def __call__(self, epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        for row, index in zip(networks.weights, indices.tolist(), strict=True):
            x, y = self._valid[index]
            predictions = StackedMLP(networks.layout, row[None])(x).predictions[0]
            for name, value in self._loss.components_of(predictions, y).items():
                self.components[name][index, epoch] = float(value)
