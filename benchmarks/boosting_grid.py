"""The trainings behind the tables of :mod:`benchmarks.boosting`: one small record per task, fold, library and objective."""

import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import xgboost
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, ShuffleSplit

from gar.boosting import GARObjective
from gar.boosting.metrics import correlation_within
from gar.registry import METRICS as REGISTERED
from gar_reproduction.data.loading import load
from gar_reproduction.data.splits import authors_split

RECORDS = Path(__file__).parent / "records" / "boosting"
LIBRARIES = ("xgboost", "lightgbm")
OBJECTIVES = ("squared error", "absolute error", "Huber", "GAR")
TASKS = ("concrete", "wine", "parkinson-total", "parkinson-motor")
GROUPED = ("group offsets", "parkinson by subject")
METRICS = ("mae", "rmse", "pearson", "spearman")
DEPTHS, RATES = (4, 7), ((0.1, 800), (0.3, 250))
EVERY = 5  # rounds between two evaluations on validation and test rows


class Problem(NamedTuple):
    """A table and its folds of ``(train, valid, test)`` rows; with groups, correlations are those within groups."""

    x: np.ndarray
    y: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    groups: np.ndarray | None = None


def problem(task: str) -> Problem:
    if task == "group offsets":
        return _new_groups(*_group_offsets())
    if task == "parkinson by subject":
        table = load("parkinson-total")
        assert table.groups is not None
        return _known_groups(table.x, table.y[:, 0], np.unique(table.groups, return_inverse=True)[1])
    data = authors_split(task)
    folds = [(fold.train, fold.valid, fold.test) for fold in data.folds]
    return Problem(data.x.numpy(), data.y[:, 0].numpy(), folds)


def _group_offsets() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return 120 groups of 50 rows: one function of the features, and a ten times larger offset per group that no feature shows."""
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(120), 50)
    x = random.normal(size=(len(groups), 6))
    signal = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] / 2
    return x, signal + 10 * random.normal(size=120)[groups] + 0.5 * random.normal(size=len(groups)), groups


def _new_groups(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Problem:
    """Test on a fifth of the groups, and split the others into five folds: no group is in two parts."""
    rest, test = next(GroupShuffleSplit(1, test_size=0.2, random_state=0).split(x, y, groups))
    folds = [(rest[a], rest[b], test) for a, b in GroupKFold(5).split(rest, groups=groups[rest])]
    return Problem(x, y, folds, groups)


def _known_groups(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Problem:
    """Test on a fifth of the rows, and split the others into five folds: every group is in all parts."""
    rest, test = next(ShuffleSplit(1, test_size=0.2, random_state=0).split(x))
    return Problem(x, y, [(rest[a], rest[b], test) for a, b in KFold(5).split(rest)], groups)


def objectives(task: str) -> tuple[str, ...]:
    return (*OBJECTIVES, "GAR within groups", "GAR within groups, no levels") if task in GROUPED else OBJECTIVES


def gar_objective(name: str, variant: int, groups: np.ndarray | None) -> GARObjective:
    alpha = (1.0, 10.0)[variant]
    if name == "GAR":
        return GARObjective(alpha=alpha)
    if name == "GAR within groups":
        return GARObjective(alpha=alpha, groups=groups)
    return GARObjective(alpha=alpha, groups=groups, components=("diff", "diffnorm"))


class TreeTraining(NamedTuple):
    """Library, objective and hyperparameters of one training."""

    library: str
    objective: str
    variant: int
    depth: int
    rate: float
    rounds: int


def runs(task: str, library: str, objective: str) -> Iterator[TreeTraining]:
    depths, rates = (DEPTHS[:1], RATES[:1]) if task in GROUPED else (DEPTHS, RATES)
    for variant, depth, (rate, rounds) in product((0, 1), depths, rates):
        yield TreeTraining(library, objective, variant, depth, rate, rounds)


def curves(data: Problem, fold: tuple[np.ndarray, ...], run: TreeTraining) -> np.ndarray:
    """Return the metrics ``(evaluations, valid and test, metrics)`` of a training."""
    staged = _staged_xgboost if run.library == "xgboost" else _staged_lightgbm
    train, *parts = fold
    groups = None if data.groups is None else data.groups[train]
    stages = staged(data.x[train], data.y[train], groups, run, [data.x[part] for part in parts])
    return np.array([[_metrics(pred, data, rows) for pred, rows in zip(stage, parts, strict=True)] for stage in stages])


def _metrics(pred: np.ndarray, data: Problem, rows: np.ndarray) -> list[float]:
    y, error = data.y[rows], pred - data.y[rows]
    groups = np.zeros(len(rows), dtype=int) if data.groups is None else data.groups[rows]
    correlations = [correlation_within(pred, y, groups, ranked=ranked) for ranked in (False, True)]
    return [float(np.abs(error).mean()), float(np.sqrt((error**2).mean())), *correlations]


def _staged_xgboost(
    x: np.ndarray, y: np.ndarray, groups: Any, run: TreeTraining, parts: list[np.ndarray]
) -> Iterator[list[np.ndarray]]:
    seed = run.variant if run.objective.endswith("error") else 0
    params: dict[str, Any] = {"max_depth": run.depth, "eta": run.rate, "subsample": 0.8, "seed": seed, "nthread": 1}
    objective = None
    if run.objective.startswith("GAR"):
        objective = gar_objective(run.objective, run.variant, groups)
        params |= {"base_score": objective.starting_score(y), "disable_default_eval_metric": 1}
    elif run.objective == "Huber":
        # XGBoost would take a Newton step from 0 as its starting score, which is far off where labels are far from 0.
        params |= {"objective": "reg:pseudohubererror", "huber_slope": (1.0, float(y.std()))[run.variant]}
        params |= {"base_score": float(np.median(y))}
    else:
        params |= {"objective": {"squared error": "reg:squarederror", "absolute error": "reg:absoluteerror"}[run.objective]}
    model = xgboost.train(params, xgboost.DMatrix(x, y), run.rounds, obj=objective)
    tables = [xgboost.DMatrix(part) for part in parts]
    for start in range(0, run.rounds, EVERY):  # each stage continues the one before
        margins = [model.predict(t, iteration_range=(start, start + EVERY), output_margin=True) for t in tables]
        for table, margin in zip(tables, margins, strict=True):
            table.set_base_margin(margin)
        yield margins


def _staged_lightgbm(
    x: np.ndarray, y: np.ndarray, groups: Any, run: TreeTraining, parts: list[np.ndarray]
) -> Iterator[list[np.ndarray]]:
    seed = run.variant if run.objective.endswith("error") else 0
    params: dict[str, Any] = {"max_depth": run.depth, "num_leaves": 2**run.depth, "learning_rate": run.rate, "seed": seed}
    params |= {"bagging_fraction": 0.8, "bagging_freq": 1, "num_threads": 1, "verbose": -1}
    start = 0.0
    if run.objective.startswith("GAR"):
        params["objective"] = objective = gar_objective(run.objective, run.variant, groups)
        start = objective.starting_score(y)
    elif run.objective == "Huber":
        params |= {"objective": "huber", "alpha": (1.0, float(y.std()))[run.variant]}
    else:
        params["objective"] = {"squared error": "l2", "absolute error": "l1"}[run.objective]
    data = lightgbm.Dataset(x, y, init_score=np.full(len(y), start) if start else None)
    model = lightgbm.train(params, data, run.rounds)
    predictions = [np.full(len(part), start) for part in parts]
    for begin in range(0, model.current_iteration(), EVERY):
        steps = [np.asarray(model.predict(part, start_iteration=begin, num_iteration=EVERY)) for part in parts]
        predictions = [before + step for before, step in zip(predictions, steps, strict=True)]
        yield predictions


def record_path(task: str, fold: int, library: str, objective: str) -> Path:
    return RECORDS / f"{task} {fold} {library} {objective}.json".replace(" ", "-").replace(",", "")


def train(tasks: tuple[str, ...]) -> None:
    """Train what has no record yet: one for each task, fold, library and objective."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        data = problem(task)
        for fold, library, objective in product(range(5), LIBRARIES, objectives(task)):
            path = record_path(task, fold, library, objective)
            if path.exists():
                continue
            start = time.process_time()
            record = _choose([(run, curves(data, data.folds[fold], run)) for run in runs(task, library, objective)])
            record |= {"train_rows": len(data.folds[fold][0]), "test_rows": len(data.folds[fold][2])}
            path.write_text(json.dumps(record | {"seconds": round(time.process_time() - start, 1)}, indent=1) + "\n")
            print(path.name, f"{record['mae']['test']:.4f} {record['pearson']['test']:.4f}", flush=True)


def _choose(trained: list[tuple[TreeTraining, np.ndarray]]) -> dict[str, Any]:
    """Return, for each metric, the training and round with the best validation value, and their value on the test rows."""
    record: dict[str, Any] = {}
    for index, metric in enumerate(METRICS):
        sign = REGISTERED[metric].sign
        run, curve = max(trained, key=lambda pair: float((sign * pair[1][:, 0, index]).max()))
        best = int((sign * curve[:, 0, index]).argmax())
        valid, test = curve[best, :, index].tolist()
        record[metric] = {"valid": valid, "test": test, **run._asdict(), "rounds": (best + 1) * EVERY}
    return record


def scores(task: str, library: str, objective: str, metric: str) -> list[float]:
    paths = [record_path(task, fold, library, objective) for fold in range(5)]
    return [json.loads(path.read_text())[metric]["test"] for path in paths if path.exists()]


def fold_rows(task: str, library: str, objective: str) -> dict[str, int]:
    """Return the numbers of training and test rows."""
    record = json.loads(record_path(task, 0, library, objective).read_text())
    return {name: record[name] for name in ("train_rows", "test_rows")}
