"""Boosted trees over a grid and all folds: one fit after another, several at a time, with a record of each on disk."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch

from gar import __version__
from gar.boosting.metrics import Library
from gar.boosting.rounds import LEAF, Growth, Recipe, growth, rows_in_leaf
from gar.errors import InputError
from gar.metrics import LARGER_IS_BETTER, METRICS, Evaluator
from gar.search.context import ALONE, RunContext, best_score
from gar.search.fingerprints import FORMAT, fingerprint
from gar.search.grid import SharedData, from_shared, to_shared
from gar.search.records import RecordFolder, put_aside
from gar.stack import SPLITS, Fold, Models, StackData


class TreeGrid(Models):
    """What boosted trees differ in: as networks, but a depth instead of a decay."""

    def __init__(self, *, depth: Sequence[int] | np.ndarray, **columns: Any) -> None:
        super().__init__(**columns)
        self.depth = np.asarray(depth, dtype=np.int64)

    @staticmethod
    def of(
        *, folds: int, seeds: Sequence[int], depths: Sequence[int], rates: Sequence[float], parameters: Sequence[float] | None
    ) -> "TreeGrid":
        """Every combination; the last named changes quickest."""
        rows = list(product(range(folds), seeds, depths, rates, parameters or (0.0,)))
        fold, seed, depth, rate, parameter = zip(*rows, strict=True)
        return TreeGrid(depth=depth, fold=fold, seed=seed, learning_rate=rate, parameter=parameter if parameters else None)

    def take(self, places: Sequence[int] | np.ndarray) -> "TreeGrid":
        index = np.asarray(places, dtype=np.int64)
        columns: dict[str, Any] = {name: None if column is None else column[index] for name, column in vars(self).items()}
        return TreeGrid(**columns)


@dataclass(frozen=True, kw_only=True)
class TreePlan:
    """What all trees of a search share.

    Args:
        library: who grows them.
        loss: what they are grown with.
        rounds: the most there are.
        patience: rounds without a better validation value after which a model is finished.
        monitor: the metric of that value.
        subsample: share of the rows that each tree sees.
    """

    library: Library
    loss: str
    monitor: str
    rounds: int = 1000
    patience: int = 50
    subsample: float = 0.8

    def recipe(self, models: TreeGrid, place: int) -> Recipe:
        return Recipe(
            library=self.library,
            loss=self.loss,
            parameter=None if models.parameter is None else float(models.parameter[place]),
            depth=int(models.depth[place]),
            learning_rate=float(models.learning_rate[place]),
            subsample=self.subsample,
            seed=int(models.seed[place]),
        )


@dataclass
class RoundHistory:
    """Metrics of every model after every round, ``(G, rounds, splits, metrics)``; NaN after a model was finished."""

    metrics: np.ndarray
    failed_epoch: np.ndarray
    """0 for a model that could not be grown at all, -1 for others, ``(G,)``."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why these could not be grown, by their places."""
    nothing: str = ""
    """Why a fold has no trees at all: then nothing can be chosen, and whoever asks for a metric is told."""

    @staticmethod
    def empty(models: int, rounds: int) -> "RoundHistory":
        return RoundHistory(np.full((models, rounds, len(SPLITS), len(METRICS)), np.nan), np.full(models, -1))

    def __len__(self) -> int:
        return len(self.metrics)

    def of(self, split: str, metric: str) -> np.ndarray:
        """One metric on one split, ``(G, rounds)``; an error with the reason if a fold has no trees at all."""
        if self.nothing:
            raise InputError(self.nothing)
        values: np.ndarray = self.metrics[:, :, SPLITS.index(split), METRICS.index(metric)]
        return values

    def take(self, places: np.ndarray) -> "RoundHistory":
        return RoundHistory(self.metrics[places], self.failed_epoch[places])

    def put(self, place: int, values: np.ndarray, reason: str) -> None:
        """Enter the rounds of one model; none are those of a model that failed for this reason."""
        self.metrics[place, : len(values)] = values
        self.failed_epoch[place] = -1 if len(values) else 0
        if len(values) == 0:
            self.reasons[place] = reason

    def finished(self, folds: np.ndarray) -> "RoundHistory":
        """The same when all models are there, ``folds`` being theirs: now it is known whether a fold has no trees at all."""
        for fold in np.unique(folds).tolist():
            mine = np.flatnonzero(folds == fold)
            if (self.failed_epoch[mine] == 0).all():
                return replace(self, nothing=f"no trees of fold {fold} could be grown: {self.reasons[int(mine[0])]}")
        return self


def tree_key(data: StackData, plan: TreePlan) -> str:
    """Of everything that all fits of a search share, the version of the library among it.

    The size of leaves counts for small tables alone, where it differs: records of others were written without it, and stay valid.
    """
    small = [leaf for fold in data.folds if (leaf := rows_in_leaf(len(fold.train))) < LEAF]
    shared = (FORMAT, __version__, import_module(plan.library).__version__, asdict(plan), data)
    return fingerprint((*shared, small) if small else shared)


def search_trees(
    data: StackData,
    models: TreeGrid,
    plan: TreePlan,
    *,
    context: RunContext = ALONE,
) -> RoundHistory | None:
    """Fit all models, as :func:`gar.search.search` does with networks; None if it was told to stop before all were done."""
    history = RoundHistory.empty(len(models), plan.rounds)
    store = None if context.records is None else _Store(context.records, data, plan, models)
    missing = list(range(len(models)))
    if store is not None:
        missing = store.recall(history)
    table = to_shared(data)
    tasks = ((place, table, int(models.fold[place]), plan.recipe(models, place), plan) for place in missing)
    left = set(missing)
    known = len(models) - len(missing)
    with context.worker_pool() as pool, context.show_progress(len(models), known, plan.monitor) as bar:
        bar.update(0, best_score(history.metrics, plan.monitor))
        for place, values, reason in pool.run(fit, tasks, shared=table, stop=context.is_late):
            history.put(place, values, reason)
            left.remove(place)
            if store is not None:
                store.write(place, values, reason)
            bar.update(1, best_score(history.metrics[[place]], plan.monitor))
    return None if left else history.finished(models.fold)


class _Store:
    """A record for each fit."""

    def __init__(self, folder: str | os.PathLike[str], data: StackData, plan: TreePlan, models: TreeGrid) -> None:
        key = tree_key(data, plan)
        self._files = RecordFolder(folder, key, {"data": repr(data), "plan": asdict(plan)})
        self._names = [fingerprint((key, model))[:16] for model in models.identities()]
        self._shape = (plan.rounds, len(SPLITS), len(METRICS))

    def recall(self, history: RoundHistory) -> list[int]:
        """Enter what is recorded; returns the places of models that are not."""
        places = {name: place for place, name in enumerate(self._names)}
        for path, arrays in self._files.read():
            values = arrays.get("metrics")
            if values is None or values.ndim != 3 or len(values) > self._shape[0] or values.shape[1:] != self._shape[1:]:
                put_aside(path, "its metrics are missing or of the wrong shape")
            elif path.stem in places:
                history.put(places.pop(path.stem), values, str(arrays.get("reason", "the reason is not in its record")))
        return list(places.values())

    def write(self, place: int, values: np.ndarray, reason: str) -> None:
        why = {"reason": np.array(reason)} if reason else {}
        self._files.write(self._names[place], {"metrics": values, **why})


class Fitted(NamedTuple):
    """One model."""

    place: int
    metrics: np.ndarray
    """After every round, ``(rounds, splits, metrics)``."""
    reason: str
    """Why there are no rounds, if there are none."""


def fit(place: int, table: SharedData, fold: int, recipe: Recipe, plan: TreePlan) -> Fitted:
    """Grow one model and measure it after every round; one that cannot be grown has no rounds, but a reason."""
    data = from_shared(table)
    rows = data.folds[fold]
    try:
        targets = growths(data, rows, recipe, [data.x.numpy()[rows.of_split(split)] for split in SPLITS])
    except InputError as error:
        return Fitted(place, np.empty((0, len(SPLITS), len(METRICS))), str(error))
    judges = [Evaluator(data.y[rows.of_split(split)].double()) for split in SPLITS]
    sign = 1.0 if LARGER_IS_BETTER[plan.monitor] else -1.0
    values: list[np.ndarray] = []
    best, best_round, reason = -np.inf, 0, ""
    while len(values) < plan.rounds and len(values) - best_round < plan.patience:
        try:
            looks = [one.next_round() for one in targets]
        except InputError as error:  # GAR has no gradient, as where labels are constant
            reason = "" if values else str(error)
            break
        parts = zip(judges, zip(*looks, strict=True), strict=True)
        values.append(np.stack([judge(torch.from_numpy(np.column_stack(part))).numpy() for judge, part in parts]))
        score = sign * values[-1][SPLITS.index("valid"), METRICS.index(plan.monitor)]
        if score > best:
            best, best_round = score, len(values)
    return Fitted(place, np.array(values).reshape(-1, len(SPLITS), len(METRICS)), reason)


class Grown(NamedTuple):
    """Trees of one target, and the level and unit of its labels."""

    trees: Growth
    center: float
    scale: float

    def next_round(self) -> list[np.ndarray]:
        """One more tree; predictions in the units of the labels."""
        self.trees.grow()
        return [self.center + self.scale * np.asarray(pred, dtype=np.float64) for pred in self.trees.predictions()]


def growths(data: StackData, fold: Fold, recipe: Recipe, others: Sequence[np.ndarray]) -> list[Grown]:
    """Trees of every target, on the training rows that have its label.

    They start from the best constant of their loss. Labels are scaled as for networks, so that parameters mean the same.
    """
    x, y = data.x.numpy(), data.y.numpy()
    made = []
    for target in range(y.shape[1]):
        rows = fold.train[~np.isnan(y[fold.train, target])]
        labels = y[rows, target].astype(np.float64)
        if len(labels) == 0:
            raise InputError(f"no training row of a fold has a label of target {target}; use fewer folds, or leave it out")
        center = float(labels.mean() if recipe.loss == "mse" else np.median(labels))
        scale = 1.0 if fold.labels is None else float(fold.labels.scale[target])
        made.append(Grown(growth(recipe, x[rows], (labels - center) / scale, others), center, scale))
    return made
