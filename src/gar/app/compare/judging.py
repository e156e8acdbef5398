"""From what was trained to what is reported."""

from typing import NamedTuple

import numpy as np

from gar.app.compare.families import Trial, Winners
from gar.app.compare.preparing import Prepared
from gar.app.models import Model
from gar.app.report.results import Choice, Method, ParameterScore, Predictions
from gar.errors import InputError
from gar.metrics import LARGER_IS_BETTER, METRICS
from gar.search import Selection, select
from gar.search.selection import Measured
from gar.stack import Models


class Judged(NamedTuple):
    """A method as it is reported, its winners as a model, and their mean on the validation rows, larger being better."""

    method: Method
    model: Model
    merit: float


def choose(trial: Trial) -> dict[str, Selection]:
    """Every metric chooses its own winners by the validation rows, as in the paper."""
    return {name: select(trial.history, trial.models, name) for name in METRICS}


def judge(trial: Trial, chosen: dict[str, Selection], winners: Winners, prepared: Prepared, metric: str) -> Judged:
    """A method with all its scores; its winners are those that ``metric`` chose."""
    best = chosen[metric]
    method = Method(
        loss=trial.loss,
        family=trial.family,
        title=trial.title,
        parameter=trial.parameter,
        models=len(trial.models),
        failed=trial.failed,
        seconds=round(trial.seconds, 3),
        scores=scores_on_test(chosen),
        chosen=choices(trial.models, best.model, best.epoch, best.fold),
        learning=learning(trial.history, best.model),
        components={name: mean_over_winners(values) for name, values in winners.components.items()},
        sensitivity=_sensitivity(trial),
        predictions=_predictions(winners.model, prepared),
    )
    return Judged(method, winners.model, best.mean("valid", metric) * (1.0 if LARGER_IS_BETTER[metric] else -1.0))


def scores_on_test(chosen: dict[str, Selection]) -> dict[str, list[float]]:
    """Of every metric, the test value of its own winners."""
    scores = {name: selection.of("test", name) for name, selection in chosen.items()}
    for name, values in scores.items():
        if not np.isfinite(values).all():
            raise InputError(f"its test {name} is not finite; use smaller learning rates")
    return {name: values.tolist() for name, values in scores.items()}


def choices(models: Models, places: np.ndarray, epochs: np.ndarray, numbers: np.ndarray) -> tuple[Choice, ...]:
    """Winners as plain data, each under the number of its fold or seed."""
    depths = models.columns().get("depth")  # which trees have instead of a decay
    return tuple(
        Choice(
            fold=int(number),
            learning_rate=float(models.learning_rate[place]),
            weight_decay=float(models.weight_decay[place]) if depths is None else None,
            depth=None if depths is None else int(depths[place]),
            parameter=None if models.parameter is None else float(models.parameter[place]),
            epoch=int(epoch),
        )
        for place, epoch, number in zip(places, epochs, numbers, strict=True)
    )


def learning(history: Measured, places: np.ndarray) -> dict[str, list[float]]:
    """Validation values of the winners after every epoch."""
    return {name: mean_over_winners(history.of("valid", name)[places]) for name in METRICS}


def mean_over_winners(values: np.ndarray) -> list[float]:
    """Means of ``(winners, epochs)`` up to the last epoch that all of them finished: a mean of fewer would jump."""
    known = np.isfinite(values).all(0)
    length = len(known) if known.all() else int(known.argmin())
    return [float(value) for value in values[:, :length].mean(0)]


def _sensitivity(trial: Trial) -> tuple[ParameterScore, ...]:
    """Test scores with the parameter held at each of its values; one at which a whole fold diverged has none."""
    scores = []
    for value in [] if trial.models.parameter is None else np.unique(trial.models.parameter).tolist():
        places = np.flatnonzero(trial.models.parameter == value)
        history, models = trial.history.take(places), trial.models.take(places)
        try:
            held = scores_on_test(choose(trial._replace(models=models, history=history)))
        except InputError:
            continue
        scores.append(ParameterScore(value=value, scores=held))
    return tuple(scores)


def _predictions(model: Model, prepared: Prepared) -> Predictions:
    """Test rows that have a label, target by target."""
    features, labels = prepared.tested
    predicted = model.predict(features)
    known = [np.flatnonzero(~np.isnan(column)) for column in labels.T]
    return Predictions(
        true=[column[rows].tolist() for column, rows in zip(labels.T, known, strict=True)],
        predicted=[column[rows].tolist() for column, rows in zip(predicted.T, known, strict=True)],
    )
