"""Networks as a family: stacks trained by :func:`gar.search.search`, and their winners as one model."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from gar.compare.families import Trial, Winners
from gar.compare.options import NETWORKS, Options
from gar.compare.preparing import Prepared
from gar.compare.running import Run
from gar.compare.winners import train_again
from gar.losses import registry
from gar.models import TableModel
from gar.search import Selection, search
from gar.search.identity import run_key
from gar.stack import Fold, History, Models, Scaling, StackData, TrainSettings


class Searched(NamedTuple):
    """All models of a search that got to its end."""

    models: Models
    settings: TrainSettings
    history: History
    seconds: float


def search_networks(data: StackData, models: Models, settings: TrainSettings, run: Run, *, where: str) -> Searched | None:
    """Train all models; None if time was up before all were done."""
    with run.stopwatch(run_key(data, settings, device="cpu", dtype=torch.float32)) as watch:
        history = search(data, models, settings, **run.searching(where, settings.spec.title))
        done = (history.epochs_run > 0) | (history.failed_epoch >= 0)
        return Searched(models, settings, history, watch.seconds) if np.all(done) else None


class Networks:
    """Multi-layer perceptrons, with every loss there is."""

    name = NETWORKS
    losses = tuple(registry)

    def title_of(self, loss: str) -> str:
        return registry[loss].title

    def check(self) -> None:
        """All that networks need is always there."""

    def attempt(self, loss: str, prepared: Prepared, options: Options, run: Run) -> Trial | None:
        models = options.models(loss, folds=options.folds)
        found = search_networks(prepared.data, models, self._settings(loss, prepared, options), run, where=prepared.source.name)
        return None if found is None else Trial(loss, self.title_of(loss), loss, models, found.history, found.seconds)

    def train_again(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        settings, folds = self._settings(trial.loss, prepared, options), prepared.data.folds
        again = train_again(prepared.data, trial.models.take(best.model), settings, best.epoch)
        model = TableModel(
            networks=again.networks,
            encoders=prepared.encoders,
            features=[_plain(fold) for fold in folds],
            labels=[fold.labels for fold in folds],
            targets=prepared.source.targets,
            about=trial.about(prepared, best.metric),
        )
        return Winners(model, again.components)

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
