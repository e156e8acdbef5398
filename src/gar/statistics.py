"""Comparison of two methods by their scores, one per fold: gains in percent and p-values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from gar.errors import InputError

CHANCE = 0.05
"""A p-value below this is called a difference."""


@dataclass(frozen=True)
class Comparison:
    """Two methods compared by one metric.

    Args:
        gain: percent by which the first method's mean is better; negative where it is worse.
        p: of Student's t-test of two samples, as in the paper, which takes folds for independent.
        p_corrected: of the corrected resampled t-test, which accounts for training rows that folds share.
    """

    gain: float
    p: float
    p_corrected: float

    @property
    def is_clear(self) -> bool:
        """Return True if the corrected test finds a difference."""
        return self.p_corrected < CHANCE


def compare_scores(
    values: Sequence[float], rival: Sequence[float], *, larger_is_better: bool, train_rows: float, test_rows: float
) -> Comparison:
    """Compare two methods by their scores on the same folds: the gain in percent, and two p-values.

    Folds in which either score is not finite are left out; without any fold everything is NaN.

    Example:
        >>> compare_scores([4.6, 4.5], [5.0, 5.1], larger_is_better=False, train_rows=640, test_rows=200).is_clear
        False
    """
    pairs = [pair for pair in zip(values, rival, strict=True) if np.isfinite(pair).all()]
    if not pairs:
        return Comparison(np.nan, np.nan, np.nan)
    mine, theirs = zip(*pairs, strict=True)
    return Comparison(
        gain=percent_gain(mine, theirs, larger_is_better=larger_is_better),
        p=two_sample_t(mine, theirs),
        p_corrected=corrected_resampled_t(mine, theirs, train_rows=train_rows, test_rows=test_rows)
        if min(train_rows, test_rows) > 0
        else np.nan,
    )


def percent_gain(values: Sequence[float], rival: Sequence[float], *, larger_is_better: bool) -> float:
    """Return by how many percent the mean of ``values`` is better than that of ``rival``; negative where it is worse.

    Two means of zero give 0. Against a rival's mean of zero alone there is no percentage: NaN.

    Example:
        >>> percent_gain([4.5, 4.5], [5.0, 5.0], larger_is_better=False)
        10.0
    """
    mine, theirs = float(np.mean(values)), float(np.mean(rival))
    better = mine - theirs if larger_is_better else theirs - mine
    if better == 0:
        return 0.0
    return 100.0 * better / abs(theirs) if theirs != 0 else float("nan")


def two_sample_t(values: Sequence[float], rival: Sequence[float]) -> float:
    """Return the two-sided p-value of Student's t-test of two samples with one common variance, as the paper reports it.

    Folds share most of their training rows, which this test ignores: it finds differences too easily. See
    :func:`corrected_resampled_t`. Samples without any spread give 1 for equal and 0 for different means; one value is too few: NaN.

    Example:
        >>> round(two_sample_t([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]), 4)
        0.2879
    """
    one, other = np.asarray(values, np.float64), np.asarray(rival, np.float64)
    if min(len(one), len(other)) < 2:
        return float("nan")
    if one.mean() == other.mean():
        return 1.0
    samples = [(sample.mean(), sample.std(ddof=1), len(sample)) for sample in (one, other)]
    return float(stats.ttest_ind_from_stats(*samples[0], *samples[1]).pvalue)


def corrected_resampled_t(values: Sequence[float], rival: Sequence[float], *, train_rows: float, test_rows: float) -> float:
    """Return the two-sided p-value of the corrected resampled t-test (Nadeau and Bengio, 2003), which allows for overlapping folds.

    The variance of the paired differences over k folds counts ``1/k + test_rows/train_rows`` times instead of ``1/k`` times,
    because the folds' training rows overlap. Differences without any spread give 1 if they are zero and 0 if not; one fold is
    too few: NaN.

    Args:
        values: one score per fold.
        rival: those of the other method, on the same folds.
        train_rows: training rows of a fold.
        test_rows: rows a score is computed from.

    Example:
        >>> round(corrected_resampled_t([4.6, 4.5, 4.7], [5.0, 5.1, 5.0], train_rows=640, test_rows=200), 4)
        0.0717
    """
    if len(values) != len(rival):
        raise InputError(f"there are {len(values)} and {len(rival)} scores to compare; expected one of each method for every fold")
    if not (train_rows > 0 and test_rows > 0):
        raise InputError(f"train_rows={train_rows} and test_rows={test_rows} must both be above zero")
    differences = np.asarray(values, np.float64) - np.asarray(rival, np.float64)
    folds = len(differences)
    if folds < 2:
        return float("nan")
    mean, variance = differences.mean(), differences.var(ddof=1) * (1 / folds + test_rows / train_rows)
    if variance == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stats.t.sf(abs(mean) / np.sqrt(variance), folds - 1))
