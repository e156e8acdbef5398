"""From what was trained to what is reported."""

from typing import NamedTuple

import numpy as np

from gar.compare.preparing import Prepared
from gar.compare.running import Trial
from gar.compare.winners import Winners
from gar.errors import InputError
from gar.metrics import LARGER_IS_BETTER, METRICS
from gar.models import TableModel
from gar.report.results import Choice, Method, ParameterScore, Predictions
from gar.search import Selection, select
from gar.stack import Fold, History, Models, Scaling


class Judged(NamedTuple):
    """A method as it is reported, its winners as a model, and their mean on the validation rows, larger being better."""

    method: Method
    model: TableModel
    merit: float


def choose(trial: Trial) -> dict[str, Selection]:
    """Every metric chooses its own winners by the validation rows, as in the paper."""
    return {name: select(trial.history, trial.models, name) for name in METRICS}


def judge(trial: Trial, chosen: dict[str, Selection], winners: Winners, prepared: Prepared, metric: str) -> Judged:
    """A method with all its scores; its winners are those that ``metric`` chose."""
    best = chosen[metric]
    model = _model(trial, prepared, winners, metric)
    method = Method(
        name=trial.loss,
        title=trial.title,
        parameter=trial.settings.spec.parameter,
        models=len(trial.models),
        failed=trial.failed,
        seconds=round(trial.seconds, 3),
        scores=scores_on_test(chosen),
        chosen=choices(trial.models, best.model, best.epoch, best.fold),
        learning=learning(trial.history, best.model),
        components={name: mean_over_winners(values) for name, values in winners.components.items()},
        sensitivity=_sensitivity(trial),
        predictions=_predictions(model, prepared),
    )
    return Judged(method, model, best.mean("valid", metric) * (1.0 if LARGER_IS_BETTER[metric] else -1.0))


def scores_on_test(chosen: dict[str, Selection]) -> dict[str, list[float]]:
    """Of every metric, the test value of its own winners."""
    scores = {name: selection.of("test", name) for name, selection in chosen.items()}
    for name, values in scores.items():
        if not np.isfinite(values).all():
            raise InputError(f"its test {name} is not finite; use smaller learning rates")
    return {name: values.tolist() for name, values in scores.items()}


def choices(models: Models, places: np.ndarray, epochs: np.ndarray, numbers: np.ndarray) -> tuple[Choice, ...]:
    """Winners as plain data, each under the number of its fold or seed."""
    return tuple(
        Choice(
            fold=int(number),
            learning_rate=float(models.learning_rate[place]),
            weight_decay=float(models.weight_decay[place]),
            parameter=None if models.parameter is None else float(models.parameter[place]),
            epoch=int(epoch),
        )
        for place, epoch, number in zip(places, epochs, numbers, strict=True)
    )


def learning(history: History, places: np.ndarray) -> dict[str, list[float]]:
    """Validation values of the winners after every epoch."""
    return {name: mean_over_winners(history.of("valid", name)[places]) for name in METRICS}


def mean_over_winners(values: np.ndarray) -> list[float]:
    """Means of ``(winners, epochs)`` over those that were still in training, up to the last epoch that any of them finished."""
    known = np.isfinite(values)
    counts = known.sum(0)
    length = len(counts) if counts.all() else int(counts.argmin())
    sums = np.where(known, values, 0.0).sum(0)
    return [float(value) for value in sums[:length] / counts[:length]]


def _model(trial: Trial, prepared: Prepared, winners: Winners, metric: str) -> TableModel:
    folds = prepared.data.folds
    return TableModel(
        networks=winners.networks,
        encoders=prepared.encoders,
        features=[_plain(fold) for fold in folds],
        labels=[fold.labels for fold in folds],
        targets=prepared.source.targets,
        about={"loss": trial.loss, "title": trial.title, "judged_by": metric, "table": prepared.source.name},
    )


def _plain(fold: Fold) -> Scaling | None:
    """How features are scaled, which is all that is done to them in a comparison, and all that a saved model knows."""
    assert fold.features is None or isinstance(fold.features, Scaling)
    return fold.features


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


def _predictions(model: TableModel, prepared: Prepared) -> Predictions:
    """Test rows that have a label, target by target."""
    features, labels = prepared.tested
    predicted = model.predict(features)
    known = [np.flatnonzero(~np.isnan(column)) for column in labels.T]
    return Predictions(
        true=[column[rows].tolist() for column, rows in zip(labels.T, known, strict=True)],
        predicted=[column[rows].tolist() for column, rows in zip(predicted.T, known, strict=True)],
    )
