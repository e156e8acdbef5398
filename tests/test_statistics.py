"""Gains and p-values against scipy, against the definition, and where they are not defined."""

import math

import numpy as np
import pytest
from scipy import stats

from gar.errors import InputError
from gar.statistics import corrected_resampled_t, percent_gain, two_sample_t

ONE = [4.60, 4.52, 4.71, 4.49, 4.63]
OTHER = [4.91, 4.88, 5.02, 4.70, 4.95]


def test_two_sample_t_is_that_of_scipy() -> None:
    assert two_sample_t(ONE, OTHER) == pytest.approx(stats.ttest_ind(ONE, OTHER).pvalue, rel=1e-12)
    assert two_sample_t(ONE, OTHER[:3]) == pytest.approx(stats.ttest_ind(ONE, OTHER[:3]).pvalue, rel=1e-12)
    assert two_sample_t(ONE, OTHER) == two_sample_t(OTHER, ONE)


def test_corrected_resampled_t_is_the_definition() -> None:
    differences = np.subtract(ONE, OTHER)
    mean = differences.sum() / 5
    variance = ((differences - mean) ** 2).sum() / 4
    statistic = mean / math.sqrt((1 / 5 + 200 / 640) * variance)
    expected = 2 * stats.t.cdf(-abs(statistic), df=4)
    assert corrected_resampled_t(ONE, OTHER, train_rows=640, test_rows=200) == pytest.approx(expected, rel=1e-12)


def test_without_overlap_the_correction_vanishes() -> None:
    """With hardly any test rows it is the paired t-test."""
    corrected = corrected_resampled_t(ONE, OTHER, train_rows=1e12, test_rows=1)
    assert corrected == pytest.approx(stats.ttest_rel(ONE, OTHER).pvalue, rel=1e-6)
    assert corrected_resampled_t(ONE, OTHER, train_rows=640, test_rows=200) > corrected


@pytest.mark.parametrize("test", [two_sample_t, lambda a, b: corrected_resampled_t(a, b, train_rows=4, test_rows=1)])
def test_degenerate_scores(test: object) -> None:
    assert callable(test)
    assert test([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert test([1.0, 1.0], [2.0, 2.0]) == 0.0
    assert math.isnan(test([1.0], [2.0]))


def test_wrong_use_is_explained() -> None:
    with pytest.raises(InputError, match="5 and 3 scores"):
        corrected_resampled_t(ONE, OTHER[:3], train_rows=4, test_rows=1)
    with pytest.raises(InputError, match="train_rows=0"):
        corrected_resampled_t(ONE, OTHER, train_rows=0, test_rows=1)


def test_gain_is_positive_where_it_is_better() -> None:
    assert percent_gain([4.0], [5.0], larger_is_better=False) == pytest.approx(20.0)
    assert percent_gain([6.0], [5.0], larger_is_better=False) == pytest.approx(-20.0)
    assert percent_gain([0.9], [0.6], larger_is_better=True) == pytest.approx(50.0)
    assert percent_gain([0.1], [-0.2], larger_is_better=True) == pytest.approx(150.0)
    assert percent_gain([0.0, 0.0], [0.0, 0.0], larger_is_better=True) == 0.0
    assert math.isnan(percent_gain([1.0], [0.0], larger_is_better=True))
