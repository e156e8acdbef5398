"""Kinds of models: what they have in common, and networks. Each trains all models of a loss on all folds, and retrains winners.

Boosted trees are in :mod:`gar.app.compare.trees`. All are listed in :data:`gar.registry.FAMILIES`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch

from gar.app.compare.options import Options
from gar.app.compare.source import Prepared
from gar.app.models import Model, TableModel
from gar.errors import InputError
from gar.losses import GARLoss
from gar.registry import BASELINE, FAMILIES, LOSSES, NETWORKS, PAPER_LOSSES
from gar.search import RunContext, Selection, retrain, search
from gar.search.fingerprints import run_key
from gar.search.selection import Measured
from gar.stack import Fold, History, Models, Scaling, StackData, StackedMLP, TrainSettings
from gar.stack.batches import scaled_rows


class MetricHistory(Measured, Protocol):
    """Metrics of models after every epoch or round, from which some models can be taken."""

    def take(self, indices: np.ndarray, /) -> Self: ...


class Trial(NamedTuple):
    """All models of one family and loss, with their metrics after every epoch."""

    loss: str
    family: str
    title: str
    models: Models
    history: MetricHistory
    seconds: float
    """Training time, with that of earlier runs of the same command."""

    def about(self, prepared: Prepared, metric: str) -> Mapping[str, Any]:
        """Return what a saved model says about itself."""
        return {"loss": self.loss, "title": self.title, "metric": metric, "table": prepared.source.name}


class Winners(NamedTuple):
    """The winners of all folds as one model, and the components of their validation errors, ``(winners, epochs)``, if known."""

    model: Model
    components: Mapping[str, np.ndarray]


class Family(Protocol):
    """A kind of model."""

    @property
    def name(self) -> str:
        """Return its name in :data:`gar.registry.FAMILIES`."""

    def train(self, loss: str, prepared: Prepared, options: Options, context: RunContext) -> Trial | None:
        """Train all models of a loss; return None if the time limit was reached before all were done. Records are kept."""

    def retrain(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        """Train the winners again: a search keeps no models, since thousands would fill the disk."""

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        """Return how it is trained, for the reader of a report."""


def load_families(options: Options) -> list[Family]:
    """Return the chosen kinds of models, each once; an error names the package that has to be installed."""
    names, losses = list(dict.fromkeys(options.families)), options.losses_or(PAPER_LOSSES)
    families = [_load(name) for name in names]
    fitting = dict.fromkeys(loss for name in names for loss in losses_of(name))
    if not set(fitting) & set(losses):
        raise InputError(f"{', '.join(names)}: none of {', '.join(losses)} fits; they are trained with {', '.join(fitting)}")
    return families


def _load(name: Any) -> Family:
    if name == NETWORKS:
        return Networks()
    from gar.app.compare.trees import BoostedTrees  # every other family is a library of boosted trees

    return BoostedTrees(name)


def losses_of(family: str) -> tuple[str, ...]:
    """Return the losses that a family can be trained with."""
    losses = FAMILIES[family].losses
    return tuple(LOSSES) if losses is None else losses


def method_title(loss: str, family: str) -> str:
    """Return the title of a method, such as ``"GAR"`` for networks and ``"GAR (XGBoost)"`` for other families."""
    return LOSSES[loss].title if family == NETWORKS else f"{LOSSES[loss].title} ({FAMILIES[family].title})"


class Networks:
    """Multi-layer perceptrons, with every loss of the registry."""

    name = NETWORKS

    def train(self, loss: str, prepared: Prepared, options: Options, context: RunContext) -> Trial | None:
        models, settings = options.models(loss), self._settings(loss, prepared, options)
        found = search_networks(prepared.data, models, settings, context, table=prepared.source.name)
        return None if found is None else Trial(loss, self.name, settings.spec.title, models, *found)

    def retrain(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        models, settings = trial.models.take(best.model), self._settings(trial.loss, prepared, options)
        components = ComponentObserver(prepared.data, models, settings)
        model = TableModel(
            networks=retrain(prepared.data, models, settings, best.epoch, observe=components),
            encoders=prepared.encoders,
            features=[_scaling(fold) for fold in prepared.data.folds],
            labels=[fold.labels for fold in prepared.data.folds],
            targets=prepared.source.targets,
            about=trial.about(prepared, best.metric),
        )
        return Winners(model, components.values)

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        settings, values = self._settings(BASELINE, prepared, options), options.hyperparameters()
        return {
            "network": [prepared.data.x.shape[1], *settings.hidden_sizes, len(prepared.source.targets)],
            "epochs": settings.epochs,
            "batch_size": settings.batch_size,
            "optimizer": settings.optimizer,
            "schedule": settings.schedule,
            "learning_rates": list(values["learning_rates"]),
            "weight_decays": list(values["weight_decays"]),
        }

    @staticmethod
    def _settings(loss: str, prepared: Prepared, options: Options) -> TrainSettings:
        smallest = min(len(fold.train) for fold in prepared.data.folds)
        return options.settings(loss, features=prepared.data.x.shape[1], train_rows=smallest)


def search_networks(
    data: StackData, models: Models, settings: TrainSettings, context: RunContext, *, table: str
) -> tuple[History, float] | None:
    """Train all models; return their history and the seconds spent, or None if the time limit was reached before all were done."""
    with context.stopwatch(run_key(data, settings, device="cpu", dtype=torch.float32)) as watch:
        history = search(data, models, settings, context=context.labelled(f"{table}: {settings.spec.title:<16}"))
        return (history, watch.seconds) if history.is_complete else None


def _scaling(fold: Fold) -> Scaling | None:
    """Return the scaling of a fold's features; a comparison has no other encoding, and a saved model knows no other."""
    assert fold.features is None or isinstance(fold.features, Scaling)
    return fold.features


class ComponentObserver:
    """Record GAR's three components of every model on its validation rows after every epoch.

    ``values`` has ``(models, epochs)`` by component, with NaN for epochs after a model's training ended.
    """

    def __init__(self, data: StackData, models: Models, settings: TrainSettings) -> None:
        self._loss = GARLoss(nan_policy="omit")
        folds = [data.folds[fold] for fold in models.fold.tolist()]
        self._valid = [scaled_rows(data, fold, fold.valid, torch.empty(0)) for fold in folds]
        empty = np.full((len(models), settings.epochs), np.nan)
        self.values: dict[str, np.ndarray] = {name: empty.copy() for name in self._loss.settings.components}

    def __call__(self, epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        for row, index in zip(networks.table, indices.tolist(), strict=True):
            x, y = self._valid[index]
            predictions = StackedMLP(networks.layout, row[None])(x).predictions[0]
            for name, value in self._loss.components_of(predictions, y).items():
                self.values[name][index, epoch] = float(value)
