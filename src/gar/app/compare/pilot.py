"""Pilots: short fits on a sample of the rows, by which a plan estimates how long the whole fit of a loss takes."""

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gar.app.compare.plan import Estimate
from gar.app.compare.source import Prepared
from gar.errors import InputError
from gar.estimators import GARRegressorCV
from gar.estimators.presets import LARGE_NETWORK_ROWS, batch_size_for
from gar.groups import order_by_groups
from gar.registry import LOSSES

if TYPE_CHECKING:
    import pandas as pd

_ROWS = LARGE_NETWORK_ROWS
"""Most training rows of a pilot: as many as make its network that of a large table."""

_SECONDS, _MOST_EPOCHS = 0.7, 8
"""Seconds that the epochs of a pilot take, about, and their largest number."""

_RUNGS = 3
"""Steps of successive halving."""

_PASSES = 3.0
"""How often a fit reads all cells, or does something that takes as long: checking, merging equal rows, encoding folds."""


_LONGER = 1.25
"""How much longer a whole fit takes than a few epochs of it let expect, measured on five tables (``benchmarks/compare.py``)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Some rows of a table that stand for each of its folds, and what else an estimate needs: small enough to be sent to workers.

    The first ``count`` rows train, the others validate.
    """

    features: "pd.DataFrame"
    labels: np.ndarray
    pairs: np.ndarray | None
    count: int
    rows: int
    """Training rows of a fold of the whole table."""
    folds: int
    predicted: int
    """Rows that are predicted after training."""
    encoding_seconds: float

    @staticmethod
    def of(prepared: Prepared) -> "Sample":
        """Return at most 2000 training rows of the first fold, and as large a share of its validation rows."""
        train, valid, test = prepared.parts[0]
        count = min(len(train), _ROWS)
        checked = min(len(valid), -(-len(valid) * count // len(train)))
        rows = np.concatenate([_drawn(train, count, prepared.source.pairs), _drawn(valid, checked, prepared.source.pairs)])
        return Sample(
            features=prepared.source.features.iloc[rows],
            labels=prepared.source.labels[rows],
            pairs=None if prepared.source.pairs is None else prepared.source.pairs[rows],
            count=count,
            rows=len(train),
            folds=len(prepared.parts),
            predicted=len(test) + sum(len(part[1]) for part in prepared.parts),
            encoding_seconds=prepared.encoding_seconds,
        )


def _drawn(rows: np.ndarray, count: int, pairs: np.ndarray | None) -> np.ndarray:
    """Return some rows at random; those of a group that are compared are drawn together."""
    generator = np.random.default_rng(0)
    order = generator.permutation(len(rows)) if pairs is None else order_by_groups(pairs[rows], generator)
    return rows[order[:count]]


def estimate_fit(arguments: Mapping[str, Any], sample: Sample, budget: float = math.inf) -> Estimate:
    """Return how long the whole fit of a loss with these arguments takes, scores included.

    Two stacks of networks are timed at the sizes at which they are trained: all candidates on one fold, as in the trials of
    successive halving, and one candidate of each encoding on all folds, as the finalists. How many rows each of them passes over is
    known, and so is the number of rows that are predicted in the end. Once the ``budget`` of seconds is used, the estimate is made
    of what was timed by then.
    """
    end = time.monotonic() + budget
    single = {**arguments, **_single(arguments)}
    last = GARRegressorCV(**single, n_finalists=None).planned_work(sample.rows, sample.folds)
    trials = GARRegressorCV(**arguments).planned_work(sample.rows, sample.folds) - last
    try:
        finalists = _Pilot(single, sample, sample.folds, end, is_first=True)
        seconds = finalists.overhead + finalists.seconds_per_row * last
        if trials > 0:
            candidates = finalists if time.monotonic() > end else _Pilot(arguments, sample, 1, end)
            seconds += (_RUNGS - 1) * candidates.overhead + candidates.seconds_per_row * trials
    except InputError:  # such as constant labels in the sample; the fit itself says what is wrong
        return Estimate(1.0)
    closing = finalists.predict_seconds_per_row * sample.predicted
    return Estimate(_LONGER * seconds + closing + _PASSES * sample.encoding_seconds, closing)


def _single(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return grids of one value each."""
    default = GARRegressorCV(**arguments)
    name = "alphas" if default.loss == "gar" else "parameters"
    grids = {"learning_rates": default.learning_rates, "weight_decays": default.weight_decays, name: default.loss_parameters}
    return {name: tuple(values)[:1] or None for name, values in grids.items()}


class _Pilot:
    """Times the networks of a grid, all of them trained for a few epochs.

    Attributes:
        seconds_per_row: of a network for a row and an epoch.
        overhead: seconds of a fit besides training.
        predict_seconds_per_row: of all networks that predict.
    """

    def __init__(self, arguments: Mapping[str, Any], sample: Sample, folds: int, end: float, *, is_first: bool = False) -> None:
        split = np.arange(sample.count), np.arange(sample.count, len(sample.labels))
        small = {"n_finalists": None, "scoring": "mae", "cv": [split] * folds}
        batch = {"batch_sizes": arguments.get("batch_sizes", (batch_size_for(sample.rows),))}
        self._arguments, self._sample, self._folds = {**arguments, **small, **batch}, sample, folds
        spec = LOSSES[arguments["loss"]]
        self._takes_groups, least = spec.takes("groups"), 1 if "pred" in spec.inputs else 2  # the first of two trains an encoder
        first, work = self._timed(least)
        if is_first and time.monotonic() < end:
            first, work = self._timed(least)  # what a process does for the first time takes longer
        self.seconds_per_row, self.overhead = first / work, 0.0
        if time.monotonic() > end:
            return
        epochs = min(1 + math.ceil(_SECONDS / first), _MOST_EPOCHS)
        second, more = self._timed(epochs * least)
        self.seconds_per_row = max(second - first, 0.2 * first * (epochs - 1)) / (more - work)
        self.overhead = max(first - self.seconds_per_row * work, 0.0)

    def _timed(self, epochs: int) -> tuple[float, int]:
        """Fit for some epochs; return the seconds, and the rows that all networks passed over."""
        sample, model = self._sample, GARRegressorCV(**{**self._arguments, "epochs": epochs})
        start = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(sample.features, sample.labels, pair_groups=sample.pairs if self._takes_groups else None)
        trained = time.monotonic()
        model.predict(sample.features)
        self.predict_seconds_per_row = (time.monotonic() - trained) / len(sample.labels)
        return trained - start, model.planned_work(sample.count, self._folds)
