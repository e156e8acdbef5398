"""The paper's synthetic curves: how well each loss recovers a function of one variable."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gar.app.compare.curve_points import CURVES, CurvePoints
from gar.app.compare.judging import choices, learning
from gar.app.compare.networks import Searched, search_networks
from gar.app.compare.options import LOSS_OPTIONS, NETWORKS, Options
from gar.app.compare.tables import Compared, NothingFinishedError
from gar.app.report.results import Curve, Method, Problem, Truth
from gar.errors import InputError
from gar.estimators.presets import train_settings
from gar.losses import registry
from gar.metrics import METRICS
from gar.search import RunContext
from gar.stack import Models, StackData, TrainSettings

LOSSES = ("mae", "mse", "mae_pearson", "rnc", "gar")
"""Those of the paper's figure."""
SEEDS = (1, 2, 3)
PARAMETERS: Mapping[str, tuple[float, ...]] = {"gar": (0.5,)}

RECIPE: Mapping[str, Any] = {
    "learning_rates": (1e-2, 3e-3),
    "weight_decays": (0.0,),
    "batch_sizes": (128,),
    "hidden_sizes": (100,) * 5,
    "epochs": 300,
    "optimizer": "adam",
    "schedule": "multistep",
}
"""The paper's protocol, with fewer learning rates, decays and seeds."""

_METRIC = "mae"


def compare_curve(name: str, options: Options, run: RunContext) -> Compared:
    """Fit a curve with every loss. A random half of its points is trained on, the other half is tested.

    As in the paper there are no validation rows: the combination with the lowest mean absolute error on the tested half, after the
    last epoch and over all seeds, is the one that is shown.
    """
    if NETWORKS not in options.families:
        raise InputError(f"{name} is a curve, which networks fit; choose {NETWORKS!r} among the models, or name a table")
    points = CURVES[name]
    tested, trained = np.split(np.random.default_rng(options.seed).permutation(len(points.x)), [len(points.x) // 2])
    # The tested half stands as validation rows, by which the paper chooses, and is not measured twice.
    data = StackData(points.x, points.y, [(trained, tested, np.arange(0))])
    rest = [family for family in options.families if family != NETWORKS]
    notes = [f"Curves are fitted by networks only, and not by {' and '.join(rest)}."] if rest else []
    methods, is_late = [], False
    for loss in options.chosen(LOSSES):
        trial = search_networks(data, _models(loss, options), _settings(loss, options), run, where=name)
        is_late |= trial is None
        method = None if trial is None else _method(trial, data)
        if method is None:
            reason = "time was up; the same command goes on where it was" if trial is None else "training diverged"
            notes.append(f"{registry[loss].title} was left out: {reason}.")
        else:
            methods.append(method)
    if not methods:
        raise NothingFinishedError(f"{name}: no loss was finished. {' '.join(notes)}")
    methods.sort(key=lambda method: list(registry).index(method.loss))
    return Compared(_problem(name, points, data, options, methods, notes), None, is_late)


def _models(loss: str, options: Options) -> Models:
    recipe = options.recipe(RECIPE)
    return Models.grid(
        seeds=SEEDS,
        learning_rates=recipe["learning_rates"],
        weight_decays=recipe["weight_decays"],
        parameters=options.parameters.get(loss, PARAMETERS.get(loss)),
    )


def _settings(loss: str, options: Options) -> TrainSettings:
    recipe = options.recipe(RECIPE)
    (batch_size,), epochs = recipe["batch_sizes"], recipe["epochs"]
    shared = {name: recipe[name] for name in ("hidden_sizes", "optimizer", "schedule")}
    settings = train_settings(
        features=1, batch_size=batch_size, epochs=epochs, loss=loss, loss_options=LOSS_OPTIONS.get(loss), keep_final=True, **shared
    )
    pretrain = epochs // 3 if settings.is_two_phase else None
    return replace(settings, milestones=(epochs // 3, 2 * epochs // 3), pretrain_epochs=pretrain)


def _method(trial: Searched, data: StackData) -> Method | None:
    """The combination that is best on average over the seeds, after the last epoch; None if none got there."""
    values = trial.history.metrics[:, -1, 0]
    combinations = np.arange(len(trial.models)).reshape(len(SEEDS), -1)
    errors = values[:, METRICS.index(_METRIC)][combinations].mean(0)
    errors = np.where(np.isfinite(errors), errors, np.inf)
    if np.isinf(errors).all():
        return None
    best = combinations[:, errors.argmin()]
    last = np.full(len(best), trial.settings.epochs - 1)
    return Method(
        loss=trial.settings.loss,
        title=trial.settings.spec.title,
        parameter=trial.settings.spec.parameter,
        models=len(trial.models),
        failed=int((trial.history.failed_epoch >= 0).sum()),
        seconds=round(trial.seconds, 3),
        scores={name: values[best, place].tolist() for place, name in enumerate(METRICS)},
        chosen=choices(trial.models, best, last, trial.models.seed[best]),
        learning=learning(trial.history, best),
        curve=_curve(trial, best, data.x),
    )


def _curve(trial: Searched, best: np.ndarray, x: torch.Tensor) -> Curve:
    fitted = trial.history.final(x.float()).predictions[best, :, 0].double().numpy()
    return Curve(mean=fitted.mean(0).tolist(), sd=fitted.std(0).tolist())


def _problem(name: str, points: CurvePoints, data: StackData, options: Options, methods: list[Method], notes: list[str]) -> Problem:
    fold, recipe = data.folds[0], options.recipe(RECIPE)
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
        settings={name: list(value) if isinstance(value, tuple) else value for name, value in recipe.items()}
        | {"seeds": list(SEEDS), "split_seed": options.seed},
        methods=methods,
        notes=(points.note, protocol, *notes),
        truth=Truth(x=points.x[:, 0].tolist(), y=points.y[:, 0].tolist(), trained=trained.tolist()),
    )
