"""Networks by the paper's preset: its grids, its schedule and raw labels, each metric with winners of its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gar.app.compare.families import Finished, LeftOut
from gar.app.compare.grids import Trial, Winners, compare_grids, measured_search, search_networks
from gar.app.compare.options import Options
from gar.app.compare.plan import Estimate, Plan
from gar.app.compare.source import Prepared
from gar.app.models import TableModel
from gar.estimators.base import Member
from gar.losses import GARLoss
from gar.registry import BASELINE, NETWORKS
from gar.search import RunContext, Selection, retrain
from gar.stack import Models, StackData, StackedMLP, TrainSettings


class PaperNetworks:
    """Multi-layer perceptrons with the whole grid of the paper, for every loss of the registry."""

    name = NETWORKS

    def compare(
        self, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext, plan: Plan
    ) -> Iterator[Finished | LeftOut]:
        return compare_grids(self, losses, prepared, options, context)

    def measure(self, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext) -> Mapping[str, Estimate]:
        """Train an epoch of the networks of one fold with each loss, and return the seconds of its grid on one core."""
        found = {}
        for loss in losses:
            settings, models = self._settings(loss, prepared, options), options.models(loss, len(prepared.parts))
            found[loss] = Estimate(measured_search(prepared.folds[0], models, settings))
        return found

    def train(self, loss: str, prepared: Prepared, options: Options, context: RunContext) -> Trial | None:
        settings, models = self._settings(loss, prepared, options), options.models(loss, len(prepared.parts))
        return search_networks(prepared.folds[0], models, settings, context, table=prepared.source.name)

    def retrain(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        models, settings = trial.models.take(best.model), self._settings(trial.loss, prepared, options)
        data, encoders = prepared.folds
        components = ComponentObserver(data, models, settings)
        networks = retrain(data, models, settings, best.epoch, observe=components)
        members = [
            [Member(networks.take([index]), encoder, fold.features, fold.labels)]
            for index, (encoder, fold) in enumerate(zip(encoders, data.folds, strict=True))
        ]
        about = prepared.about(trial.loss, trial.title, best.metric)
        model = TableModel(members=members, encoders=encoders, targets=prepared.source.targets, about=about)
        return Winners(model, components.values)

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        settings, values = self._settings(BASELINE, prepared, options), options.hyperparameters()
        return {
            "network": [prepared.folds[0].x.shape[1], *settings.hidden_sizes, len(prepared.source.targets)],
            "epochs": settings.epochs,
            "batch_size": settings.batch_size,
            "optimizer": settings.optimizer,
            "schedule": settings.schedule,
            "learning_rates": list(values["learning_rates"]),
            "weight_decays": list(values["weight_decays"]),
        }

    @staticmethod
    def _settings(loss: str, prepared: Prepared, options: Options) -> TrainSettings:
        data = prepared.folds[0]
        return options.settings(loss, features=data.x.shape[1], train_rows=min(len(fold.train) for fold in data.folds))


class ComponentObserver:
    """Record GAR's three components of every model on its validation rows after every epoch.

    ``values`` has ``(models, epochs)`` by component, with NaN for epochs after a model's training ended.
    """

    def __init__(self, data: StackData, models: Models, settings: TrainSettings) -> None:
        self._loss = GARLoss(nan_policy="omit")
        folds = [data.folds[fold] for fold in models.fold.tolist()]
        self._valid = [data.scaled_rows(fold, fold.valid, torch.empty(0)) for fold in folds]
        empty = np.full((len(models), settings.epochs), np.nan)
        self.values: dict[str, np.ndarray] = {name: empty.copy() for name in self._loss.settings.components}

    def __call__(self, epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        for row, index in zip(networks.weights, indices.tolist(), strict=True):
            x, y = self._valid[index]
            predictions = StackedMLP(networks.layout, row[None])(x).predictions[0]
            for name, value in self._loss.components_of(predictions, y).items():
                self.values[name][index, epoch] = float(value)
