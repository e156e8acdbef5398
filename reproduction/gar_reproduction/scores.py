"""From digests to numbers: each fold's winner, means, gains, p-values, and how far they are from the paper's."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from gar.metrics import LARGER_IS_BETTER
from gar.search import RecordWarning, Selection, select
from gar.statistics import corrected_resampled_t, percent_gain, two_sample_t
from gar_reproduction.digest import Digest, read_digest
from gar_reproduction.published import Score
from gar_reproduction.unit import Unit

K = TypeVar("K")


def read_digests(records: Path, units: Iterable[Unit]) -> dict[tuple[str, str], Digest]:
    """All that can be used, by task and variant. What is damaged or stale counts as not run, and is not an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        found = {(unit.task, unit.variant): read_digest(records, unit) for unit in units}
    return {key: digest for key, digest in found.items() if digest is not None}


def winners(digest: Digest, metric: str, *, parameter: float | None = None) -> Selection:
    """Each fold's best model on the validation rows: what :func:`gar.search.select` chooses from the whole history.

    Args:
        digest: of a unit.
        metric: that chooses.
        parameter: among models with this value of the loss's parameter only. ``model`` then counts among these.
    """
    if parameter is None or digest.models.parameter is None:
        return select(digest.history, digest.models, metric)
    places = np.flatnonzero(digest.models.parameter == parameter)
    return select(digest.history.take(places), digest.models.take(places), metric)


@dataclass(frozen=True)
class Result:
    """Test values of the folds' winners by one metric."""

    metric: str
    values: tuple[float, ...]
    train_rows: float
    test_rows: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def sd(self) -> float:
        """Divided by the number of folds, as in the paper."""
        return float(np.std(self.values))

    def is_near(self, published: Score) -> bool:
        """Whether the means are within two (our sd + the paper's sd) of each other, with the paper's rounding to three digits."""
        return abs(self.mean - published.mean) <= 2 * (self.sd + published.sd) + 0.5e-3

    def is_better_than(self, other: "Result") -> bool:
        return self.mean > other.mean if LARGER_IS_BETTER[self.metric] else self.mean < other.mean


def result(digest: Digest, metric: str, *, parameter: float | None = None) -> Result:
    """Labels that were standardised stay so: errors are divided by each fold's standard deviation of labels."""
    values = winners(digest, metric, parameter=parameter).of("test", metric)
    scales = digest.about["label_scales"]
    if scales is not None and metric in ("mae", "rmse"):
        values = values / np.array(scales)[:, 0]
    return Result(metric, tuple(values.tolist()), digest.about["train_rows"], digest.about["test_rows"])


def results_by_parameter(digest: Digest, metric: str) -> dict[float, Result]:
    """The result with each value of the loss's parameter alone, from the smallest value up."""
    assert digest.models.parameter is not None
    return {value: result(digest, metric, parameter=value) for value in np.unique(digest.models.parameter).tolist()}


@dataclass(frozen=True)
class Duel:
    """GAR against one rival by one metric."""

    rival: str
    gain: float
    """Percent."""
    p: float
    """Of Student's test of two samples, as in the paper."""
    p_corrected: float
    """Of the corrected resampled test, which knows that folds share rows."""


def duel(champion: Result, rival: Result, name: str) -> Duel:
    return Duel(
        rival=name,
        gain=percent_gain(champion.values, rival.values, larger_is_better=LARGER_IS_BETTER[champion.metric]),
        p=two_sample_t(champion.values, rival.values),
        p_corrected=corrected_resampled_t(
            champion.values, rival.values, train_rows=champion.train_rows, test_rows=champion.test_rows
        ),
    )


def best_of(results: Mapping[K, Result]) -> K | None:
    """The name of the best mean; the first of equals, None of nothing."""
    best = None
    for name, one in results.items():
        if best is None or one.is_better_than(results[best]):
            best = name
    return best


def mean_ranks(rows: Sequence[Mapping[str, float]], larger_is_better: Sequence[bool]) -> dict[str, float]:
    """The mean over rows of each name's rank in it, 1 being the best; equal values share the mean of their ranks.

    Example:
        >>> mean_ranks([{"a": 1.0, "b": 2.0}, {"a": 0.5, "b": 0.5}], [False, True])
        {'a': 1.25, 'b': 1.75}
    """
    from scipy.stats import rankdata

    if not rows:
        return {}
    signs = np.where(larger_is_better, -1.0, 1.0)
    ranks = np.array([rankdata(sign * np.array(list(row.values()))) for row, sign in zip(rows, signs, strict=True)])
    return dict(zip(rows[0], ranks.mean(0).tolist(), strict=True))
