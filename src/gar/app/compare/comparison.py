"""All chosen losses and kinds of models on one table: train, select winners by validation rows, retrain them, score test rows."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from gar.app.compare.families import Family, Trial, Winners, load_families, losses_of, method_title
from gar.app.compare.options import Options
from gar.app.compare.source import Prepared, Source, prepare
from gar.app.models import Model
from gar.app.report.results import Choice, Method, ParameterScore, Predictions, Problem
from gar.errors import InputError
from gar.registry import LOSSES, METRICS, PAPER_LOSSES
from gar.search import RunContext, Selection, select
from gar.search.fingerprints import model_columns
from gar.search.selection import Measured
from gar.stack import Models


class Compared(NamedTuple):
    """The results on a problem, and the winners of the best method as a model, if the problem is a table."""

    problem: Problem
    model: Model | None
    is_late: bool
    """True if the time limit was reached before all losses were done."""


class NothingFinishedError(InputError):
    """There is nothing to report: the time limit was reached too early, or every loss diverged."""


def compare_table(source: Source, options: Options, context: RunContext) -> Compared:
    """Train every chosen loss with its grid on every fold, score the test rows, and keep the best method by validation rows.

    Args:
        source: the table.
        options: what to train.
        context: how to compute.

    Example:
        >>> from gar.app.compare import source_of_data_set
        >>> quick = Options(losses=("mae", "gar"), epochs=2, learning_rates=(0.01,), weight_decays=(0.001,))
        >>> found = compare_table(source_of_data_set("diabetes"), quick, RunContext(workers=1))
        >>> [method.name for method in found.problem.methods], found.problem.test_rows
        (['mae', 'gar'], 88)
    """
    families = load_families(options)
    prepared = prepare(source, options)
    finished, notes, is_late = _train(prepared, families, options, context)
    winners = context.map(_retrain, [(one, prepared, options) for one in finished])
    methods = [_method(one, own, prepared, options.metric) for one, own in zip(finished, winners, strict=True)]
    scores = [METRICS[options.metric].sign * one.selections[options.metric].mean("valid", options.metric) for one in finished]
    best = int(np.argmax(scores))
    problem = _problem(prepared, families, options, methods, notes, saved=methods[best].name)
    return Compared(problem, winners[best].model, is_late)


class Finished(NamedTuple):
    """A trial, and the winners by every metric."""

    family: Family
    trial: Trial
    selections: dict[str, Selection]


def _train(
    prepared: Prepared, families: Sequence[Family], options: Options, context: RunContext
) -> tuple[list[Finished], list[str], bool]:
    """Return the trials that were finished, notes on the others, and whether the time limit was reached."""
    finished: list[Finished] = []
    notes, late = _notes_on_losses(families, options), list[str]()
    for loss, family in product(options.losses_or(PAPER_LOSSES), families):
        if loss not in losses_of(family.name):
            continue
        trial = family.train(loss, prepared, options, context)
        if trial is None:
            late.append(method_title(loss, family.name))
            continue
        try:
            finished.append(Finished(family, trial, _selections(trial)))
        except InputError as error:
            notes.append(f"{trial.title} was left out: {error}")
    if late:
        notes.append(f"The time limit was reached before these were finished: {', '.join(late)}. The same command continues.")
    if not finished:
        raise NothingFinishedError(f"{prepared.source.name}: no loss was finished. {' '.join(notes)}")
    return finished, notes, bool(late)


def _notes_on_losses(families: Sequence[Family], options: Options) -> list[str]:
    """Return a note on the chosen losses that some families cannot be trained with."""
    notes = []
    for losses in dict.fromkeys(losses_of(family.name) for family in families):
        names = [family.name for family in families if losses_of(family.name) == losses]
        rest = [LOSSES[loss].title for loss in options.losses_or(PAPER_LOSSES) if loss not in losses]
        if rest:
            notes.append(f"{', '.join(rest)}: for networks only, and not tried with {' and '.join(names)}.")
    return notes


def _selections(trial: Trial) -> dict[str, Selection]:
    """Return the winners of every fold by each metric: every metric selects its own by the validation rows, as in the paper."""
    return {name: select(trial.history, trial.models, name) for name in METRICS}


def _retrain(one: Finished, prepared: Prepared, options: Options) -> Winners:
    return one.family.retrain(one.trial, one.selections[options.metric], prepared, options)


def _method(finished: Finished, winners: Winners, prepared: Prepared, metric: str) -> Method:
    """Return a method with all its scores; its winners are those that ``metric`` selected."""
    _, trial, selections = finished
    best = selections[metric]
    return Method(
        loss=trial.loss,
        family=trial.family,
        title=trial.title,
        parameter=LOSSES[trial.loss].parameter,
        models=len(trial.models),
        failed=int((trial.history.failed_epoch >= 0).sum()),
        seconds=round(trial.seconds, 3),
        scores=_test_scores(selections),
        chosen=choices(trial.models, best.model, best.epoch, best.fold),
        learning=learning_curves(trial.history, best.model),
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


def choices(models: Models, indices: np.ndarray, epochs: np.ndarray, numbers: np.ndarray) -> tuple[Choice, ...]:
    """Return winners as plain data, each under the number of its fold or seed."""
    depths = model_columns(models).get("depth")  # trees have a depth instead of a weight decay
    return tuple(
        Choice(
            fold=int(number),
            learning_rate=float(models.learning_rate[index]),
            weight_decay=float(models.weight_decay[index]) if depths is None else None,
            depth=None if depths is None else int(depths[index]),
            parameter=None if models.parameter is None else float(models.parameter[index]),
            epoch=int(epoch),
        )
        for index, epoch, number in zip(indices, epochs, numbers, strict=True)
    )


def learning_curves(history: Measured, indices: np.ndarray) -> dict[str, list[float]]:
    """Return the mean validation value of the winners after every epoch, by metric."""
    return {name: _mean_over_winners(history.of("valid", name)[indices]) for name in METRICS}


def _mean_over_winners(values: np.ndarray) -> list[float]:
    """Return means of ``(winners, epochs)`` up to the last epoch that all of them finished: a mean of fewer would jump."""
    known = np.isfinite(values).all(0)
    length = len(known) if known.all() else int(known.argmin())
    return [float(value) for value in values[:, :length].mean(0)]


def _sensitivity(trial: Trial) -> tuple[ParameterScore, ...]:
    """Return the test scores with the parameter fixed at each of its values, without values at which a whole fold diverged."""
    scores = []
    for value in [] if trial.models.parameter is None else np.unique(trial.models.parameter).tolist():
        indices = np.flatnonzero(trial.models.parameter == value)
        fixed = trial._replace(models=trial.models.take(indices), history=trial.history.take(indices))
        try:
            scores.append(ParameterScore(value=value, scores=_test_scores(_selections(fixed))))
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


def _problem(
    prepared: Prepared, families: Sequence[Family], options: Options, methods: list[Method], notes: list[str], *, saved: str
) -> Problem:
    """Return the table with its methods, family by family in the order of the registry's losses."""
    source, order = prepared.source, [family.name for family in families]
    test_rows = len(prepared.parts[0][2])
    settings = {
        "preset": options.preset or "default",
        **{name: value for family in families for name, value in family.settings(prepared, options).items()},
        "labels": "standardised" if options.preset is None else "raw",
        "test_rows": test_rows,
        "folds": options.folds,
        "groups": "kept together" if source.groups is not None else "none",
        "seed": options.seed,
    }
    return Problem(
        name=source.name,
        title=source.title,
        source=source.source,
        rows=len(source.labels),
        features=source.features.shape[1],
        targets=source.targets,
        train_rows=round(sum(len(train) for train, _, _ in prepared.parts) / len(prepared.parts)),
        test_rows=test_rows,
        judged_by=options.metric,
        settings=settings,
        methods=sorted(methods, key=lambda method: (order.index(method.family), list(LOSSES).index(method.loss))),
        notes=(*prepared.notes, *notes),
        saved=saved,
    )
