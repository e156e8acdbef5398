"""The paper's synthetic curves: how well each loss recovers a function of one variable."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import joblib
import numpy as np

from gar.app.compare.families import Compared, NothingFinishedError
from gar.app.compare.grids import Trial, as_method, measured_search, search_networks
from gar.app.compare.options import Options
from gar.app.compare.plan import Estimate, Plan, duration, report_seconds
from gar.app.report.results import Curve, Method, Problem, Truth
from gar.errors import InputError
from gar.registry import LOSSES, METRICS, NETWORKS
from gar.search import RunContext
from gar.stack import History, Models, StackData, TrainSettings

CURVE_LOSSES = ("mae", "mse", "mae_pearson", "rnc", "gar")
"""The losses of the paper's figure."""
SEEDS = (1, 2, 3)
PARAMETERS: Mapping[str, tuple[float, ...]] = {"gar": (0.5,)}

CURVE_PRESET: Mapping[str, Any] = {
    "learning_rates": (1e-2, 3e-3),
    "weight_decays": (0.0,),
    "batch_sizes": (128,),
    "hidden_sizes": (100,) * 5,
    "epochs": 300,
    "optimizer": "adam",
    "schedule": "multistep",
}
"""The paper's protocol, with fewer learning rates, weight decays and seeds."""

_METRIC = "mae"


class CurvePoints(NamedTuple):
    """Points ``(points, 1)`` of a curve, with its title and a note for the report."""

    title: str
    x: np.ndarray
    y: np.ndarray
    note: str


def sine() -> tuple[np.ndarray, np.ndarray]:
    """Return ``y = sin(x)`` for x from ``-10 pi`` to ``10 pi`` in steps of 0.1: 629 points."""
    x = np.arange(-10 * np.pi, 10 * np.pi, 0.1)
    return x[:, None], np.sin(x)[:, None]


def squared_sine(*, step: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return ``y = x^2 sin(x) / mean(x^2)``, ``x = sign(t) sqrt(|t|)``, t from -1024 to 1024.

    Args:
        step: of t; 1 gives the 2048 points of the authors' file, 0.1 the 20480 of the paper's text.
    """
    t = np.arange(round(2048 / step)) * step - 1024.0
    x = np.sign(t) * np.sqrt(np.abs(t))
    return x[:, None], (x**2 * np.sin(x) / np.mean(x**2))[:, None]


CURVES: Mapping[str, CurvePoints] = {
    "sine": CurvePoints("Sine", *sine(), "x from -10 pi to 10 pi in steps of 0.1, y = sin(x); a random half is trained on."),
    "squared-sine": CurvePoints(
        "Squared sine",
        *squared_sine(),
        "The paper's text says steps of 0.1, which makes 20480 points; its authors used steps of 1, which makes these 2048.",
    ),
}
"""The paper's curves by name."""


def plan_curve(name: str, options: Options, context: RunContext) -> Plan:
    """Return the losses that fit a curve, and about how long they take."""
    data, losses = _data(name, options), options.losses_or(CURVE_LOSSES)
    workers: int = joblib.effective_n_jobs(context.workers)
    searches = {loss: (data, _models(loss, options), _settings(loss, options)) for loss in losses}
    estimates = {(NETWORKS, loss): Estimate(measured_search(*search) / workers) for loss, search in searches.items()}
    total = sum(one.seconds for one in estimates.values()) + report_seconds(len(losses))
    lines = (
        f"{name}: networks with {', '.join(LOSSES[loss].title for loss in losses)}, {len(SEEDS)} seeds; about {duration(total)}",
    )
    return Plan(losses=losses, estimates=estimates, total=total, lines=lines)


def _data(name: str, options: Options) -> StackData:
    """Return a curve as a table: a random half is trained on, the other half is tested."""
    points = CURVES[name]
    tested, trained = np.split(np.random.default_rng(options.seed).permutation(len(points.x)), [len(points.x) // 2])
    # The tested half stands as validation rows, by which the paper selects, and is not measured twice.
    return StackData(points.x, points.y, [(trained, tested, np.arange(0))])


def _models(loss: str, options: Options) -> Models:
    values = options.hyperparameters(CURVE_PRESET)
    grid = {name: values[name] for name in ("learning_rates", "weight_decays")}
    return Models.grid(seeds=SEEDS, parameters=options.parameters.get(loss, PARAMETERS.get(loss)), **grid)


def compare_curve(
    name: str, options: Options, context: RunContext, *, announce: Callable[[Sequence[str]], None] | None = None
) -> Compared:
    """Fit a curve with every loss: a random half of its points is trained on, the other half is tested.

    As in the paper there are no validation rows: the combination with the lowest mean absolute error on the tested half, after the
    last epoch and over all seeds, is the one that is shown.
    """
    if NETWORKS not in options.families:
        raise InputError(f"{name} is a curve, which networks fit; choose {NETWORKS!r} among the models, or name a table")
    data = _data(name, options)
    if announce is not None:
        announce(plan_curve(name, options, context).lines)
    rest = [family for family in options.families if family != NETWORKS]
    notes = [f"Curves are fitted by networks only, and not by {' and '.join(rest)}."] if rest else []
    methods, is_late = [], False
    for loss in options.losses_or(CURVE_LOSSES):
        trial = search_networks(data, _models(loss, options), _settings(loss, options), context, table=name)
        is_late |= trial is None
        method = None if trial is None else _method(trial, data)
        if method is None:
            reason = "the time limit was reached; the same command continues" if trial is None else "training diverged"
            notes.append(f"{LOSSES[loss].title} was left out: {reason}.")
        else:
            methods.append(method)
    if not methods:
        raise NothingFinishedError(f"{name}: no loss was finished. {' '.join(notes)}")
    methods.sort(key=lambda method: list(LOSSES).index(method.loss))
    return Compared(_problem(name, data, options, methods, notes), None, is_late)


def _settings(loss: str, options: Options) -> TrainSettings:
    settings = options.settings(loss, features=1, preset=CURVE_PRESET, keep_final=True)
    third = settings.epochs // 3
    return replace(settings, milestones=(third, 2 * settings.epochs // 3), pretrain_epochs=third if settings.is_two_phase else None)


def _method(trial: Trial, data: StackData) -> Method | None:
    """Return the combination that is best on average over the seeds, after the last epoch; None if none got there."""
    models, history = trial.models, trial.history
    assert isinstance(history, History)
    values = history.metrics[:, -1, 0]
    combinations = np.arange(len(models)).reshape(len(SEEDS), -1)
    errors = values[:, METRICS[_METRIC].index][combinations].mean(0)
    errors = np.where(np.isfinite(errors), errors, np.inf)
    if np.isinf(errors).all():
        return None
    best = combinations[:, errors.argmin()]
    last = np.full(len(best), history.metrics.shape[1] - 1)
    fitted = history.final(data.x.float()).predictions[best, :, 0].double().numpy()
    scores = {name: values[best, metric.index].tolist() for name, metric in METRICS.items()}
    curve = Curve(mean=fitted.mean(0).tolist(), sd=fitted.std(0).tolist())
    return as_method(trial, scores, best, last, models.seed[best], curve=curve)


def _problem(name: str, data: StackData, options: Options, methods: list[Method], notes: list[str]) -> Problem:
    points, fold, values = CURVES[name], data.folds[0], options.hyperparameters(CURVE_PRESET)
    trained = np.isin(np.arange(len(points.x)), fold.train)
    protocol = (
        f"Half of the points are trained on, the other half is tested, with {len(SEEDS)} seeds. There are no validation rows: "
        "the combination with the lowest mean absolute error on the tested half is shown, as in the paper."
    )
    return Problem(
        name=name,
        title=points.title,
        source="its formula",
        rows=len(points.x),
        features=1,
        targets=("y",),
        train_rows=len(fold.train),
        test_rows=len(fold.valid),
        selected_by=_METRIC,
        settings={key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
        | {"seeds": list(SEEDS), "split_seed": options.seed},
        methods=methods,
        notes=(points.note, protocol, *notes),
        truth=Truth(x=points.x[:, 0].tolist(), y=points.y[:, 0].tolist(), trained=trained.tolist()),
    )
