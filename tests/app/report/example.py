"""Results of small real trainings for reports: diabetes in folds, and a sine over seeds."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_diabetes

from gar.app.report.results import Choice, Curve, Method, ParameterScore, Predictions, Problem, Results, Truth
from gar.metrics import pearson
from gar.registry import LOSSES as REGISTERED, METRICS
from gar.search import Selection, select
from gar.stack import History, Models, StackData, StackedMLP, TrainSettings, train

HOSTILE = "<script>alert(1)</script>&\"'$x_{$ ]]>\x1b[31m [bold]"
LOSSES = ("mae", "mse", "huber", "rnc", "gar")


def make_results(losses: Sequence[str] = LOSSES, *, epochs: int = 16) -> Results:
    problems = [diabetes(losses, epochs=epochs), sine(losses, epochs=epochs)]
    return Results(
        command="gar compare diabetes sine --seed 1", created="2026-01-01T12:00:00+00:00", gar="0.1.0", problems=problems
    )


def hostile(results: Results) -> Results:
    """Return the same numbers under names that try to break out of the page."""
    problems = []
    for problem in results.problems:
        methods = [replace(method, title=HOSTILE) if method.name == "mse" else method for method in problem.methods]
        methods.append(replace(methods[0], loss=HOSTILE, title=HOSTILE * 3, parameter=HOSTILE))
        methods.append(replace(methods[0], family=HOSTILE))
        named: dict[str, Any] = {
            "name": f"../{HOSTILE}",
            "title": HOSTILE,
            "source": HOSTILE,
            "targets": [HOSTILE],
            "notes": [HOSTILE],
        }
        problems.append(replace(problem, **named, methods=methods, settings={HOSTILE: HOSTILE, "list": [1, HOSTILE]}))
    return replace(results, problems=problems, command=HOSTILE, created=HOSTILE, gar=HOSTILE)


def diabetes(losses: Sequence[str], *, epochs: int) -> Problem:
    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(x))
    test, rest = order[:88], np.array_split(order[88:], 3)
    folds = [(np.concatenate([part for part in rest if part is not valid]), valid, test) for valid in rest]
    data = StackData(x, y, folds, scale_features=True, scale_labels=True)
    settings = TrainSettings(epochs=epochs, batch_size=32, milestones=(epochs // 2,), keep_best="mae")
    methods = [_method(name, data, settings, _predictions(data, test)) for name in losses]
    return Problem(
        name="diabetes", title="Diabetes", source="scikit-learn", rows=len(x), features=10, targets=["progression"],
        train_rows=236, test_rows=88, selected_by="mae", methods=methods, notes=["A tiny training for tests."],
        settings={"epochs": epochs, "batch_size": 32, "hidden_sizes": [16, 32, 16, 8], "learning_rates": [0.01]},
    )  # fmt: skip


def sine(losses: Sequence[str], *, epochs: int) -> Problem:
    x = np.arange(-10 * np.pi, 10 * np.pi, 0.1)
    y = np.sin(x)
    splits = [np.random.default_rng(seed).permutation(len(x)) for seed in (1, 2, 3)]
    folds = [(rows[: len(x) // 2], rows[len(x) // 2 :], rows[len(x) // 2 :]) for rows in splits]
    data = StackData(x[:, None], y, folds, scale_features=True)
    settings = TrainSettings(
        hidden_sizes=(50, 50, 50), epochs=2 * epochs, batch_size=64, optimizer="adam", milestones=(epochs,), keep_best="mae"
    )
    methods = [_method(name, data, settings, _curve(data)) for name in losses]
    trained = np.isin(np.arange(len(x)), folds[0][0])
    return Problem(
        name="sine", title="Sine", source="y = sin x", rows=len(x), features=1, targets=["y"], train_rows=len(x) // 2,
        test_rows=len(x) // 2, selected_by="mae", methods=methods, settings={"epochs": 2 * epochs},
        truth=Truth(x=x.tolist(), y=y.tolist(), trained=trained.tolist()),
    )  # fmt: skip


Shown = Callable[[np.ndarray], dict[str, Any]]
"""Makes fields of a method from the winners' predictions of all rows, ``(folds, rows)``."""


def _method(name: str, data: StackData, shared: TrainSettings, shown: Shown) -> Method:
    spec, settings = REGISTERED[name], replace(shared, loss=name)
    models = Models.grid(folds=range(3), seeds=(1,), learning_rates=(1e-2,), parameters=spec.grid or None)
    components = np.full((len(models), settings.epochs, 3), np.nan)

    def observe(epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        components[indices, epoch] = _components(data, models.fold[indices].tolist(), networks)

    start = time.perf_counter()
    history = train(data, models, settings, observe=observe)
    chosen = {metric: select(history, models, metric) for metric in METRICS}
    winners = chosen["mae"].model
    everything = np.stack([_predict(data, fold, history.best.module(index)) for fold, index in enumerate(winners.tolist())])
    return Method(
        loss=name, title=spec.title, parameter=spec.parameter, models=len(models), failed=int((history.failed_epoch >= 0).sum()),
        seconds=time.perf_counter() - start, scores={metric: one.of("test", metric).tolist() for metric, one in chosen.items()},
        chosen=_choices(models, chosen["mae"]),
        learning={metric: history.of("valid", metric)[winners].mean(0).tolist() for metric in METRICS},
        components={part: components[winners, :, index].mean(0).tolist() for index, part in enumerate(("mae", "diff", "diffnorm"))},
        sensitivity=_sensitivity(history, models, spec.grid), **shown(everything),
    )  # fmt: skip


def _choices(models: Models, chosen: Selection) -> list[Choice]:
    made = []
    for fold, index, epoch in zip(chosen.fold.tolist(), chosen.model.tolist(), chosen.epoch.tolist(), strict=True):
        parameter = None if models.parameter is None else float(models.parameter[index])
        rate, decay = float(models.learning_rate[index]), float(models.weight_decay[index])
        made.append(Choice(fold=fold, learning_rate=rate, weight_decay=decay, parameter=parameter, epoch=epoch))
    return made


def _sensitivity(history: History, models: Models, grid: Sequence[float]) -> list[ParameterScore]:
    found = []
    for value in grid:
        indices = np.flatnonzero(models.parameter == value)
        part = History(
            history.layout, *(getattr(history, n)[indices] for n in ("metrics", "epochs_run", "failed_epoch", "best_epoch"))
        )
        scores = {metric: select(part, models.take(indices), metric).of("test", metric).tolist() for metric in METRICS}
        found.append(ParameterScore(value=value, scores=scores))
    return found


def _scaled(data: StackData, fold: int) -> torch.Tensor:
    scaling = data.folds[fold].features
    return (data.x if scaling is None else scaling.apply(data.x)).float()


def _predict(data: StackData, fold: int, network: torch.nn.Module) -> np.ndarray:
    """Return predictions of all rows in the units of the table."""
    labels = data.folds[fold].labels
    with torch.no_grad():
        out = network(_scaled(data, fold))
    return (out if labels is None else labels.undo(out))[:, 0].double().numpy()


def _components(data: StackData, folds: list[int], networks: StackedMLP) -> np.ndarray:
    """Return MAE, variance of errors and one minus correlation of every network on the validation rows of its fold, ``(G, 3)``."""
    rows = [data.folds[fold].valid for fold in folds]
    features = [_scaled(data, fold)[index] for fold, index in zip(folds, rows, strict=True)]
    predicted = networks(torch.stack(features)).predictions[:, :, 0]
    labels = [data.folds[fold].labels for fold in folds]
    predicted = torch.stack(
        [row if one is None else one.undo(row[:, None])[:, 0] for one, row in zip(labels, predicted, strict=True)]
    )
    true = torch.stack([data.y[index, 0] for index in rows])
    errors = predicted.double() - true
    found = [errors.abs().mean(1), errors.var(1, correction=0), 1 - pearson(predicted[..., None], true[..., None])]
    return torch.stack(found, 1).numpy()


def _predictions(data: StackData, test: np.ndarray) -> Shown:
    true = data.y[torch.from_numpy(test), 0].tolist()
    return lambda all_rows: {"predictions": Predictions(true=[true], predicted=[all_rows.mean(0)[test].tolist()])}


def _curve(data: StackData) -> Shown:
    return lambda all_rows: {"curve": Curve(mean=all_rows.mean(0).tolist(), sd=all_rows.std(0).tolist())}
