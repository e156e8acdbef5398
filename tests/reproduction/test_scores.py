"""Numbers from summaries: gains, flags, ranks, slopes."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gar.stack import StackedMLP
from gar_reproduction.curves import SLOPES, fit_of
from gar_reproduction.data.loading import load
from gar_reproduction.execution import value_and_slope
from gar_reproduction.experiments import ALPHAS, cells
from gar_reproduction.published import Score
from gar_reproduction.scores import Result, best_of, mean_ranks, result, results_by_parameter
from gar_reproduction.summary import read_summaries


def test_near_is_within_two_of_both_deviations() -> None:
    one = Result("mae", (4.9, 5.1), 80, 20)  # mean 5, sd 0.1
    assert one.is_near(Score(5.39, 0.1))
    assert not one.is_near(Score(5.42, 0.1))


def test_a_comparison_by_hand() -> None:
    gar, rival = Result("mae", (4.5, 4.6, 4.4), 640, 200), Result("mae", (5.0, 5.2, 4.9), 640, 200)
    found = gar.against(rival)
    assert found.gain == pytest.approx(100 * (15.1 - 13.5) / 15.1)
    assert found.p == pytest.approx(0.007, abs=2e-3)
    assert found.p_corrected > 0
    assert best_of({"mse": rival, "gar": gar}) == "gar"
    assert best_of({"mse": rival, "gar": gar, "mae": gar}) == "gar"  # the first of equals
    assert best_of({name: replace(one, metric="pearson") for name, one in (("mse", rival), ("gar", gar))}) == "mse"
    assert best_of({}) is None


def test_standardised_errors_are_in_standard_deviations(small: None, small_records: Path) -> None:
    raw = read_summaries(small_records, cells("standardized"))["concrete", "mae"]
    scales = np.array(raw.about["label_scales"])[:, 0]
    assert len(scales) == 5
    plain = replace(raw, about={**raw.about, "label_scales": None})
    assert np.allclose(np.array(result(raw, "mae").values) * scales, result(plain, "mae").values)
    assert result(raw, "pearson").values == result(plain, "pearson").values
    assert read_summaries(small_records, cells("table1"))["concrete", "mae"].about["label_scales"] is None


def test_alpha_can_be_fixed(small: None, small_records: Path) -> None:
    summary = read_summaries(small_records, cells("alpha"))["concrete", "gar"]
    assert summary.models.parameter is not None
    fixed = results_by_parameter(summary, "mae")
    assert list(fixed) == list(ALPHAS)
    index = int(np.flatnonzero((summary.models.parameter == 2.5) & (summary.models.fold == 3))[0])
    assert fixed[2.5].values[3] == summary.test[index, 0]  # one model a fold has this alpha


def test_ranks_of_equal_values_are_shared() -> None:
    assert mean_ranks([{"a": 3.0, "b": 3.0, "c": 1.0}], [True]) == {"a": 1.5, "b": 1.5, "c": 3.0}
    assert mean_ranks([], []) == {}


@pytest.mark.parametrize("task", ["sine", "squared-sine"])
def test_slopes_are_derivatives(task: str) -> None:
    table = load(task)
    x, y = table.x[:, 0], table.y[:, 0]
    steps = np.diff(x)
    middle = np.flatnonzero((steps[1:] < 0.2) & (np.abs(x[1:-1]) > 1))
    slopes = (y[2:] - y[:-2])[middle] / (x[2:] - x[:-2])[middle]
    true = SLOPES[task](x)[1:-1][middle]
    assert np.linalg.norm(slopes - true) < 0.02 * np.linalg.norm(true)


def test_slopes_of_a_network_are_its_differences() -> None:
    networks = StackedMLP.initial((1, 8, 8, 1), seeds=[3])
    x = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    value, slope = value_and_slope(networks, 0, x)
    above, below = (value_and_slope(networks, 0, x + step)[0].astype(float) for step in (1e-2, -1e-2))
    assert np.allclose(slope, (above - below) / 2e-2, atol=1e-3)
    assert np.allclose(value, networks(x).predictions[0, :, 0], atol=1e-6)


def test_a_perfect_fit_is_perfect(small: None, small_records: Path) -> None:
    summary = read_summaries(small_records, cells("synthetic"))["sine", "gar"]
    x = summary.extras["x"]
    both = {"predictions": np.stack([np.sin(x), np.zeros_like(x)]), "slopes": np.stack([np.cos(x), np.zeros_like(x)])}
    fit = fit_of(replace(summary, extras={**summary.extras, **both}), "sine")
    assert fit is not None
    assert fit.slope_cosine == pytest.approx([1, 0])
    assert fit.slope_error == pytest.approx([0, 1])
    assert fit.correlation == pytest.approx([1, 0])
    assert fit.error[0] == pytest.approx(0, abs=1e-12)
    assert fit.error[1] == pytest.approx(2 / math.pi, abs=0.05)
    nothing = {"predictions": np.empty((0, len(x))), "slopes": np.empty((0, len(x)))}
    assert fit_of(replace(summary, extras={**summary.extras, **nothing}), "sine") is None
