"""Kinds of models, and networks as one: each trains all models of a loss on all folds, and retrains winners, which are scored here.

Boosted trees are in :mod:`gar.app.compare.trees`. All are listed in :data:`gar.registry.FAMILIES`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch

from gar.app.compare.options import Options
from gar.app.compare.source import Prepared
from gar.app.models import Model, TableModel
from gar.app.report.results import Choice, Method, ParameterScore, Predictions, Problem
from gar.errors import InputError
from gar.losses import GARLoss
from gar.registry import BASELINE, FAMILIES, LOSSES, METRICS, NETWORKS, PAPER_LOSSES
from gar.search import RunContext, Selection, retrain, search, select
from gar.search.fingerprints import run_key
from gar.search.selection import Measured
from gar.stack import Fold, Models, Scaling, StackData, StackedMLP, TrainSettings


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
    families, losses = list[Family](), options.losses_or(PAPER_LOSSES)
    for name in dict.fromkeys(options.families):
        if name == NETWORKS:
            families.append(FAMILIES[name].implementation())
        else:
            from gar.app.compare.trees import BoostedTrees  # every other family is a library of boosted trees

            families.append(BoostedTrees(name))
    supported = dict.fromkeys(loss for family in families for loss in losses_of(family.name))
    if not set(supported) & set(losses):
        names = ", ".join(family.name for family in families)
        raise InputError(f"{names}: none of {', '.join(losses)} fits; they are trained with {', '.join(supported)}")
    return families


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
        settings = self._settings(loss, prepared, options)
        return search_networks(prepared.data, options.models(loss), settings, context, table=prepared.source.name)

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


def search_networks(data: StackData, models: Models, settings: TrainSettings, context: RunContext, *, table: str) -> Trial | None:
    """Train all networks of a loss; return None if the time limit was reached before all were done."""
    title = settings.spec.title
    with context.stopwatch(run_key(data, settings, device="cpu", dtype=torch.float32)) as watch:
        history = search(data, models, settings, context=context.labelled(f"{table}: {title:<16}"))
        return Trial(settings.loss, NETWORKS, title, models, history, watch.seconds) if history.is_complete else None


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
        self._valid = [data.scaled_rows(fold, fold.valid, torch.empty(0)) for fold in folds]
        empty = np.full((len(models), settings.epochs), np.nan)
        self.values: dict[str, np.ndarray] = {name: empty.copy() for name in self._loss.settings.components}

    def __call__(self, epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        for row, index in zip(networks.weights, indices.tolist(), strict=True):
            x, y = self._valid[index]
            predictions = StackedMLP(networks.layout, row[None])(x).predictions[0]
            for name, value in self._loss.components_of(predictions, y).items():
                self.values[name][index, epoch] = float(value)


class Compared(NamedTuple):
    """The results on a problem, and the winners of the best method as a model, if the problem is a table."""

    problem: Problem
    model: Model | None
    is_late: bool
    """True if the time limit was reached before all losses were done."""


class NothingFinishedError(InputError):
    """There is nothing to report: the time limit was reached too early, or every loss diverged."""


def selections_of(trial: Trial) -> dict[str, Selection]:
    """Return the winners of every fold by each metric: every metric selects its own by the validation rows, as in the paper."""
    return {name: select(trial.history, trial.models, name) for name in METRICS}


def scored_method(trial: Trial, selections: dict[str, Selection], winners: Winners, prepared: Prepared, metric: str) -> Method:
    """Return a method with all its scores; its winners are those that ``metric`` selected."""
    best = selections[metric]
    return as_method(
        trial,
        _test_scores(selections),
        best.model,
        best.epoch,
        best.fold,
        components={name: _mean_over_winners(values) for name, values in winners.components.items()},
        sensitivity=_sensitivity(trial),
        predictions=_predictions(winners.model, prepared),
    )


def _test_scores(selections: dict[str, Selection]) -> dict[str, list[float]]:
    """Return the test value of each metric, of the winners that it selected itself."""
    scores = {name: selection.of("test", name) for name, selection in selections.items()}
    for name, values in scores.items():
        if not np.isfinite(values).all():
            raise InputError(f"its test {name} is not finite; use smaller learning rates")
    return {name: values.tolist() for name, values in scores.items()}


def _sensitivity(trial: Trial) -> tuple[ParameterScore, ...]:
    """Return the test scores with the parameter fixed at each of its values, without values at which a whole fold diverged."""
    scores = []
    for value in [] if trial.models.parameter is None else np.unique(trial.models.parameter).tolist():
        indices = np.flatnonzero(trial.models.parameter == value)
        fixed = trial._replace(models=trial.models.take(indices), history=trial.history.take(indices))
        try:
            scores.append(ParameterScore(value=value, scores=_test_scores(selections_of(fixed))))
        except InputError:
            continue
    return tuple(scores)


def _predictions(model: Model, prepared: Prepared) -> Predictions:
    """Return labels and predictions of the test rows that have a label, target by target."""
    test = prepared.parts[0][2]
    labels, predicted = prepared.source.labels[test], model.predict(prepared.source.features.iloc[test])
    known = [np.flatnonzero(~np.isnan(column)) for column in labels.T]
    return Predictions(
        true=[column[rows].tolist() for column, rows in zip(labels.T, known, strict=True)],
        predicted=[column[rows].tolist() for column, rows in zip(predicted.T, known, strict=True)],
    )


def as_method(
    trial: Trial, scores: Mapping[str, list[float]], indices: np.ndarray, epochs: np.ndarray, numbers: np.ndarray, **more: Any
) -> Method:
    """Return a trial for the report, with its test scores by metric and its winners: index, epoch, and number of fold or seed."""
    models = trial.models
    depths = models.columns().get("depth")  # trees have a depth instead of a weight decay
    chosen = [
        Choice(
            fold=int(number),
            learning_rate=float(models.learning_rate[index]),
            weight_decay=float(models.weight_decay[index]) if depths is None else None,
            depth=None if depths is None else int(depths[index]),
            parameter=None if models.parameter is None else float(models.parameter[index]),
            epoch=int(epoch),
        )
        for index, epoch, number in zip(indices, epochs, numbers, strict=True)
    ]
    return Method(
        loss=trial.loss,
        family=trial.family,
        title=trial.title,
        parameter=LOSSES[trial.loss].parameter,
        models=len(models),
        failed=int((trial.history.failed_epoch >= 0).sum()),
        seconds=round(trial.seconds, 3),
        scores=scores,
        chosen=chosen,
        learning={name: _mean_over_winners(trial.history.of("valid", name)[indices]) for name in METRICS},
        **more,
    )


def _mean_over_winners(values: np.ndarray) -> list[float]:
    """Return means of ``(winners, epochs)`` up to the last epoch that all of them finished: a mean of fewer would jump."""
    known = np.isfinite(values).all(0)
    length = len(known) if known.all() else int(known.argmin())
    return [float(value) for value in values[:, :length].mean(0)]
