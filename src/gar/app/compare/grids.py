"""Whole grids of models: every combination on every fold, winners by validation rows, retrained and scored.

Boosted trees, the networks of the paper's preset and the curves are compared so.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch

from gar.app.compare.families import Finished, LeftOut, method_title
from gar.app.compare.options import Options
from gar.app.compare.source import Prepared
from gar.app.models import Model
from gar.app.report.results import Choice, Method, ParameterScore, Predictions
from gar.errors import InputError
from gar.group_metrics import within_groups
from gar.metrics import Evaluator
from gar.registry import LOSSES, METRICS, NETWORKS, LossSpec, register, registered
from gar.search import RunContext, Selection, one_thread, search, select
from gar.search.fingerprints import run_key
from gar.search.selection import Measured
from gar.stack import Models, StackData, TrainSettings, train


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
    note: str = ""
    """Says what the time limit left out, if it was reached."""


class Winners(NamedTuple):
    """The winners of all folds as one model, and the components of their validation errors, ``(winners, epochs)``, if known."""

    model: Model
    components: Mapping[str, np.ndarray]


class GridFamily(Protocol):
    """A kind of model whose whole grid is trained, and whose winners are then trained again."""

    @property
    def name(self) -> str: ...

    def train(self, loss: str, prepared: Prepared, options: Options, context: RunContext) -> Trial | None:
        """Train all models of a loss; return None if the time limit was reached before any fold was done. Records are kept."""

    def retrain(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        """Train the winners again: a search keeps no models, since thousands would fill the disk."""


def compare_grids(
    family: GridFamily, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext
) -> Iterator[Finished | LeftOut]:
    """Train the grid of each loss, then retrain the winners of all, several at a time."""
    selected: list[tuple[Trial, dict[str, Selection]]] = []
    for loss in losses:
        title, trial = method_title(loss, family.name), family.train(loss, prepared, options, context)
        try:
            if trial is None:
                yield LeftOut(title, "the time limit was reached before it was finished; the same command continues", is_late=True)
            else:
                selected.append((trial, selections_of(trial)))
        except InputError as error:
            yield LeftOut(title, str(error))
    calls = [(family, trial, found[options.metric], prepared, options, registered([trial.loss])) for trial, found in selected]
    for (trial, found), winners in zip(selected, context.map(_retrain, calls), strict=True):
        try:
            method = scored_method(trial, found, winners, prepared, options.metric)
        except InputError as error:
            yield LeftOut(trial.title, str(error))
            continue
        validation = METRICS[options.metric].sign * found[options.metric].mean("valid", options.metric)
        yield Finished(method, winners.model, validation, (trial.note,) if trial.note else (), bool(trial.note))


def _retrain(
    family: GridFamily, trial: Trial, best: Selection, prepared: Prepared, options: Options, losses: dict[str, LossSpec]
) -> Winners:
    for name, spec in losses.items():  # a worker process does not know losses that were registered in this one
        register(name, spec)
    return family.retrain(trial, best, prepared, options)


def search_networks(data: StackData, models: Models, settings: TrainSettings, context: RunContext, *, table: str) -> Trial | None:
    """Train all networks of a loss; return None if the time limit was reached before all were done."""
    title = settings.spec.title
    with context.stopwatch(run_key(data, settings, device="cpu", dtype=torch.float32)) as watch:
        history = search(data, models, settings, context=context.labelled(f"{table}: {title:<16}"))
        return Trial(settings.loss, NETWORKS, title, models, history, watch.seconds) if history.is_complete else None


def measured_search(data: StackData, models: Models, settings: TrainSettings) -> float:
    """Return the seconds that a search takes on one core, by two epochs of the networks of its first fold and seed."""
    own = np.flatnonzero((models.fold == models.fold[0]) & (models.seed == models.seed[0]))
    start = time.monotonic()
    with one_thread():
        train(data, models.take(own), replace(settings, epochs=2, milestones=(), pretrain_epochs=None, keep_final=False))
    return (time.monotonic() - start) * settings.epochs / 2 * len(models) / len(own)


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
        components={name: mean_curve(values) for name, values in winners.components.items()},
        sensitivity=_sensitivity(trial),
        **predicted_test_rows(winners.model.predict(prepared.source.features.iloc[prepared.test]), prepared),
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


def predicted_test_rows(predicted: np.ndarray, prepared: Prepared) -> dict[str, Any]:
    """Return predictions ``(rows, targets)`` of the test rows as fields of a method: those with a label, and their scores."""
    labels, pairs = prepared.source.labels[prepared.test], prepared.pairs_of(prepared.test)
    known = [np.flatnonzero(~np.isnan(column)) for column in labels.T]
    return {
        "ensemble": scores_of(labels, predicted, pairs),
        "by_target": [scores_of(labels[:, [k]], predicted[:, [k]], pairs) for k in range(len(known))] if len(known) > 1 else [],
        "within": {} if pairs is None else scores_within(labels, predicted, pairs),
        "predictions": Predictions(
            true=[column[rows].tolist() for column, rows in zip(labels.T, known, strict=True)],
            predicted=[column[rows].tolist() for column, rows in zip(predicted.T, known, strict=True)],
        ),
    }


def scores_of(labels: np.ndarray, predicted: np.ndarray, pairs: np.ndarray | None = None) -> dict[str, float]:
    """Return all metrics of predictions ``(rows, targets)``; labels that are NaN do not count.

    With groups that are compared, ``pairs (rows,)``, correlations are means over these.
    """
    groups = None if pairs is None else torch.from_numpy(pairs)
    values = Evaluator(torch.from_numpy(labels), groups=groups)(torch.from_numpy(np.ascontiguousarray(predicted)))
    return dict(zip(METRICS, values.tolist(), strict=True))


def scores_within(labels: np.ndarray, predicted: np.ndarray, pairs: np.ndarray) -> dict[str, float]:
    """Return metrics of agreement within groups, means over these, and Pearson's correlation of all rows to compare with."""
    found = within_groups(torch.from_numpy(np.ascontiguousarray(predicted)), torch.from_numpy(labels), torch.from_numpy(pairs))
    of_all = scores_of(labels, predicted)["pearson"]
    return {**{name: float(value) for name, value in found.items()}, "pearson_of_all_rows": of_all}


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
            epoch=int(epoch) + 1,
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
        learning={name: mean_curve(trial.history.of("valid", name)[indices]) for name in METRICS},
        **more,
    )


def mean_curve(values: np.ndarray) -> list[float]:
    """Return means of ``(winners, epochs)`` up to the last epoch that all of them finished: a mean of fewer would jump."""
    known = np.isfinite(values).all(0)
    length = len(known) if known.all() else int(known.argmin())
    return [float(value) for value in values[:, :length].mean(0)]
