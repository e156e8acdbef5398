"""Boosted trees as families: one for every tree library, with the losses that it can be trained with.

Every model of a grid is one fit, several at a time, with a record of each on disk.
"""

import os
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
import torch

from gar import __version__
from gar.app.compare.families import Finished, LeftOut, method_title
from gar.app.compare.grids import Trial, Winners, compare_grids
from gar.app.compare.options import Options
from gar.app.compare.plan import Estimate, Plan
from gar.app.compare.source import Prepared
from gar.app.models.trees import TargetModel, TreeModel
from gar.boosting.library import Round, RoundSettings, TreeLibrary, leaf_rows, tree_library
from gar.boosting.training import LabelScale
from gar.errors import InputError
from gar.estimators.halving import with_fewer_rows
from gar.metrics import Evaluator
from gar.registry import METRICS
from gar.search import RunContext, Selection
from gar.search.context import ALONE
from gar.search.fingerprints import FORMAT, fingerprint
from gar.search.grid import SharedData, from_shared, to_shared, train_chunks
from gar.search.records import NAME_DIGITS, RecordFolder, put_aside, read_records
from gar.stack import SPLITS, Fold, Models, StackData

DEPTHS, RATES = (3, 6), (0.05, 0.2)
_PILOT_ROWS, _PILOT_ROUNDS, _USUAL_ROUNDS = 20_000, 10, 150
"""Rows and rounds of a measurement, and the number of rounds that trees are taken to need: early stopping decides in fact."""


class TreeGrid(Models):
    """What the boosted trees of a search differ in: as networks, but a depth instead of a weight decay."""

    def __init__(self, *, depth: Sequence[int] | np.ndarray, **columns: Any) -> None:
        super().__init__(**columns)
        self.depth = np.asarray(depth, dtype=np.int64)

    @staticmethod
    def of(
        *, folds: int, seeds: Sequence[int], depths: Sequence[int], rates: Sequence[float], parameters: Sequence[float] | None
    ) -> "TreeGrid":
        """Return every combination on every fold; folds vary fastest."""
        rows = list(product(seeds, depths, rates, parameters or (0.0,), range(folds)))  # a time limit leaves some of every fold
        seed, depth, rate, parameter, fold = zip(*rows, strict=True)
        return TreeGrid(depth=depth, fold=fold, seed=seed, learning_rate=rate, parameter=parameter if parameters else None)


@dataclass(frozen=True, kw_only=True)
class TreeSearchSettings:
    """What all trees of a search share.

    Args:
        loss: what they are trained with.
        monitor: the metric of early stopping.
        rounds: how many there are at most.
        patience: rounds without a better validation value after which training stops.
        subsample: share of the rows that each tree is trained on.
    """

    loss: str
    monitor: str
    rounds: int = 1000
    patience: int = 50
    subsample: float = 0.8

    def of_model(self, models: TreeGrid, index: int) -> RoundSettings:
        """Return the hyperparameters of one model."""
        return RoundSettings(
            loss=self.loss,
            parameter=1.0 if models.parameter is None else float(models.parameter[index]),
            max_depth=int(models.depth[index]),
            learning_rate=float(models.learning_rate[index]),
            subsample=self.subsample,
            seed=int(models.seed[index]),
        )


class BoostedTrees:
    """Trees of one library."""

    def __init__(self, name: str) -> None:
        self.name, self._library = name, tree_library(name)
        _ = self._library.module  # an error says how to install it

    def measure(self, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext) -> Mapping[str, Estimate]:
        """Train a few rounds of one model with each loss, and return the seconds that its grid would take on one core."""
        data = with_fewer_rows(prepared.folds[0], _PILOT_ROWS, _PILOT_ROWS, seed=0)
        scale = max(1.0, prepared.train_rows / _PILOT_ROWS) * _USUAL_ROUNDS / _PILOT_ROUNDS
        found = {}
        for loss in losses:
            models, settings = self._grid(loss, prepared, options), TreeSearchSettings(loss=loss, monitor=options.metric)
            start = time.monotonic()
            fit(0, to_shared(data), models.take(np.array([0])), (self._library, replace(settings, rounds=_PILOT_ROUNDS)))
            found[loss] = Estimate((time.monotonic() - start) * scale * len(models))
        return found

    def compare(
        self, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext, plan: Plan
    ) -> Iterator[Finished | LeftOut]:
        return compare_grids(self, losses, prepared, options, context)

    def train(self, loss: str, prepared: Prepared, options: Options, context: RunContext) -> Trial | None:
        settings, title = TreeSearchSettings(loss=loss, monitor=options.metric), method_title(loss, self.name)
        data, models = prepared.folds[0], self._grid(loss, prepared, options)
        labelled = context.labelled(f"{prepared.source.name}: {title:<16}")
        history, is_complete = search_trees(data, models, self._library, settings, context=labelled)
        return cut_trial(Trial(loss, self.name, title, models, history, float(history.seconds.sum())), is_complete)

    @staticmethod
    def _grid(loss: str, prepared: Prepared, options: Options) -> TreeGrid:
        seeds, parameters = options.seeds_and_parameters(loss)
        return TreeGrid.of(folds=len(prepared.parts), seeds=seeds, depths=DEPTHS, rates=RATES, parameters=parameters)

    def retrain(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        models, settings = trial.models.take(best.model), TreeSearchSettings(loss=trial.loss, monitor=options.metric)
        assert isinstance(models, TreeGrid)
        rounds = (best.epoch + 1).tolist()
        trees = [self._retrained(models, index, settings, count, prepared) for index, count in enumerate(rounds)]
        about, encoders = prepared.about(trial.loss, trial.title, best.metric), prepared.folds[1]
        model = TreeModel(library=self.name, trees=trees, encoders=encoders, targets=prepared.source.targets, about=about)
        return Winners(model, {})

    def _retrained(
        self, models: TreeGrid, index: int, settings: TreeSearchSettings, rounds: int, prepared: Prepared
    ) -> list[TargetModel]:
        """Train the winner of a fold once more, with its best number of rounds."""
        data = prepared.folds[0]
        fold = data.folds[int(models.fold[index])]
        with self._library.translate_errors():
            targets = train_targets(data, fold, self._library, settings.of_model(models, index), ())
            last = [(next(islice(trained, rounds - 1, None)), scale) for trained, scale in targets]
        return [TargetModel(self._library.to_text(one.booster), *map(float, scale)) for one, scale in last]

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        most, patience = TreeSearchSettings.rounds, TreeSearchSettings.patience
        return {
            self.name: f"version {self._library.version}",
            "tree_depths": list(DEPTHS),
            "tree_rates": list(RATES),
            "tree_rounds": f"up to {most}, until {patience} did not improve validation {options.metric}",
            "tree_subsample": TreeSearchSettings.subsample,
        }


def cut_trial(trial: Trial, is_complete: bool) -> Trial | None:
    """Return a trial with a note if the time limit was reached, and None if some fold has no model at all."""
    if is_complete:
        return trial
    done = np.isfinite(trial.history.metrics[:, 0, SPLITS.index("valid"), 0]) | (trial.history.failed_epoch >= 0)
    if set(trial.models.fold[done].tolist()) != set(trial.models.fold.tolist()):
        return None
    return trial._replace(note=f"{trial.title}: the time limit was reached after {int(done.sum())} of {len(done)} models")


def tree_key(data: StackData, library: TreeLibrary, settings: TreeSearchSettings) -> str:
    """Return the fingerprint of everything that all fits of a search share."""
    leaves = [leaf_rows(len(fold.train)) for fold in data.folds]
    return fingerprint((FORMAT, __version__, library.name, library.version, settings, leaves, data))


@dataclass
class RoundHistory:
    """Metrics of every model after every round, ``(G, rounds, splits, metrics)``; NaN after a model has stopped."""

    metrics: np.ndarray
    fold: np.ndarray
    """The fold of every model, ``(G,)``."""
    failed_epoch: np.ndarray
    """0 for a model that could not be trained at all, -1 for others, ``(G,)``."""
    reasons: np.ndarray
    """Why these could not be trained, and empty text for others, ``(G,)``."""
    seconds: np.ndarray
    """How long each of them took, ``(G,)``. A record keeps it, so that interrupted work does not count."""

    @staticmethod
    def empty(models: Models, rounds: int) -> "RoundHistory":
        """Return a history to fill in."""
        metrics = np.full((len(models), rounds, len(SPLITS), len(METRICS)), np.nan)
        reasons = np.full(len(models), "", dtype=object)
        return RoundHistory(metrics, models.fold, np.full(len(models), -1), reasons, np.zeros(len(models)))

    @staticmethod
    def of_model(model: Models, metrics: np.ndarray, reason: str, seconds: float) -> "RoundHistory":
        """Return the history of one model with its ``(rounds, splits, metrics)``; without any rounds, it failed for this reason."""
        failed, reasons = np.array([-1 if len(metrics) else 0]), np.array([reason], dtype=object)
        return RoundHistory(metrics[None], model.fold, failed, reasons, np.array([seconds]))

    def __len__(self) -> int:
        return len(self.metrics)

    def of(self, split: str, metric: str) -> np.ndarray:
        """Return one metric on one split, ``(G, rounds)``; raise an error with the reason if no model of a fold was trained."""
        for fold in np.unique(self.fold).tolist():
            mine = np.flatnonzero(self.fold == fold)
            if (self.failed_epoch[mine] == 0).all():
                raise InputError(f"no trees of fold {fold} could be trained: {self.reasons[mine[0]]}")
        values: np.ndarray = self.metrics[:, :, SPLITS.index(split), METRICS[metric].index]
        return values

    def take(self, indices: np.ndarray) -> "RoundHistory":
        """Return the history of the models at these indices."""
        columns = (self.metrics, self.fold, self.failed_epoch, self.reasons, self.seconds)
        return RoundHistory(*(column[indices] for column in columns))

    def put(self, indices: np.ndarray, part: "RoundHistory") -> None:
        """Enter the history of the models at these indices, which may have fewer rounds."""
        self.metrics[indices, : part.metrics.shape[1]] = part.metrics
        self.failed_epoch[indices], self.reasons[indices], self.seconds[indices] = part.failed_epoch, part.reasons, part.seconds


class TreeRecords:
    """A record on disk for each fit of a search."""

    def __init__(self, folder: str | os.PathLike[str], data: StackData, library: TreeLibrary, settings: TreeSearchSettings) -> None:
        self._key, self._rounds = tree_key(data, library, settings), settings.rounds
        about = {"data": repr(data), "library": library.name, "version": library.version, "settings": asdict(settings)}
        self._files = RecordFolder(folder, self._key, about)

    def read(self) -> Iterator[tuple[list[Hashable], RoundHistory]]:
        """Yield the key and the history of every recorded model; files that cannot be used are put aside with a warning."""
        for path, arrays in self._files.read():
            try:
                model = TreeGrid(**{name.removeprefix("model."): arrays[name] for name in arrays if name.startswith("model.")})
                metrics, reason, seconds = arrays["metrics"], str(arrays["reason"]), float(arrays["seconds"])
            except (KeyError, TypeError, ValueError) as error:
                put_aside(path, f"its model, metrics, reason or seconds cannot be read: {error}")
                continue
            if metrics.ndim != 3 or len(metrics) > self._rounds or metrics.shape[1:] != (len(SPLITS), len(METRICS)):
                put_aside(path, "its metrics are of the wrong shape")
            else:
                yield model.identities(), RoundHistory.of_model(model, metrics, reason, seconds)

    def write(self, models: TreeGrid, history: RoundHistory) -> None:
        """Record the history of a single model."""
        columns = {f"model.{name}": column for name, column in models.columns().items()}
        values = {"metrics": history.metrics[0], "reason": np.array(history.reasons[0]), "seconds": history.seconds[0]}
        self._files.write(fingerprint((self._key, models.identities()))[:NAME_DIGITS], columns | values)


def search_trees(
    data: StackData, models: TreeGrid, library: TreeLibrary, settings: TreeSearchSettings, *, context: RunContext = ALONE
) -> tuple[RoundHistory, bool]:
    """Fit all models, as :func:`gar.search.search` does with networks; also return whether all were done by the deadline."""
    history = RoundHistory.empty(models, settings.rounds)
    store = None if context.records is None else TreeRecords(context.records, data, library, settings)
    missing = np.arange(len(models)) if store is None else read_records(store, models, history)
    plan, job = list(missing[:, None]), (library, settings)  # every model is a chunk
    with context.worker_pool() as pool:
        is_complete = train_chunks(fit, job, data, models, plan, history, store, settings.monitor, pool, context)
    return history, is_complete


def fit(number: int, shared: SharedData, models: TreeGrid, job: tuple[TreeLibrary, TreeSearchSettings]) -> tuple[int, RoundHistory]:
    """Train a single model until its validation value no longer improves; one that cannot be trained has a reason instead."""
    library, settings = job
    sign, valid, metric = METRICS[settings.monitor].sign, SPLITS.index("valid"), METRICS[settings.monitor].index
    values: list[np.ndarray] = []
    start = time.monotonic()
    best, best_round, reason = -np.inf, 0, ""
    try:
        with library.translate_errors():
            for scores in islice(_scores_by_round(from_shared(shared), models, library, settings), settings.rounds):
                values.append(scores)
                if sign * scores[valid, metric] > best:
                    best, best_round = sign * scores[valid, metric], len(values)
                if len(values) - best_round >= settings.patience:
                    break
    except InputError as error:  # such as constant labels, of which GAR has no gradient
        reason = "" if values else str(error)
    metrics = np.array(values).reshape(-1, len(SPLITS), len(METRICS))
    return number, RoundHistory.of_model(models, metrics, reason, time.monotonic() - start)


def _scores_by_round(data: StackData, models: TreeGrid, library: TreeLibrary, settings: TreeSearchSettings) -> Iterator[np.ndarray]:
    """Train a single model and yield its metrics ``(splits, metrics)`` after every round."""
    fold = data.folds[int(models.fold[0])]
    rows = [fold.of_split(split) for split in SPLITS]
    targets = train_targets(data, fold, library, settings.of_model(models, 0), [data.x.numpy()[part] for part in rows])
    evaluators = [Evaluator(data.y[part].double()) for part in rows]
    while True:
        predictions = [[scale.inverse_transform(pred) for pred in next(rounds).predictions] for rounds, scale in targets]
        pairs = zip(evaluators, zip(*predictions, strict=True), strict=True)
        yield np.stack([evaluate(torch.from_numpy(np.column_stack(part))).numpy() for evaluate, part in pairs])


def train_targets(
    data: StackData, fold: Fold, library: TreeLibrary, settings: RoundSettings, others: Sequence[np.ndarray]
) -> list[tuple[Iterator[Round], LabelScale]]:
    """Return rounds of training for every target, on the training rows that have its label, and the scale of these.

    Trees start from the best constant of their loss. Labels are scaled as for networks, so that parameters mean the same.
    """
    x, y = data.x.numpy(), data.y.numpy()
    targets = []
    for target in range(y.shape[1]):
        rows = fold.train[~np.isnan(y[fold.train, target])]
        labels = y[rows, target].astype(np.float64)
        if len(labels) == 0:
            raise InputError(f"no training row of a fold has a label of target {target}; use fewer folds, or leave it out")
        center = np.asarray(labels.mean() if settings.loss == "mse" else np.median(labels))
        scale = LabelScale(center, np.asarray(1.0 if fold.labels is None else float(fold.labels.scale[target])))
        targets.append((library.train_rounds(settings, x[rows], scale.transform(labels), others), scale))
    return targets
