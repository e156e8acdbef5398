"""The objective: its derivatives against autograd and definitions, and what trees make of it."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch
import xgboost

from benchmarks.boosting import losses_of_rounds, rises
from gar.boosting import GARObjective
from gar.boosting.objective import LARGE
from gar.functional import gar_loss
from gar_reproduction.data.splits import authors_split

ALPHAS = (0.0, 0.1, 0.5, 1.0, 2.0, 10.0, math.inf)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"weights": (1.0, 0.5, 2.0)},
    {"components": ("diffnorm",)},
    {"components": ("mae", "diffnorm")},
)


def rows(shape: tuple[int, ...] = (60,), seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, predictions that follow them, and weights that count copies."""
    random = np.random.default_rng(seed)
    y = 3 * random.normal(size=shape) + 7
    return y, y + 2 * random.normal(size=shape), random.integers(0, 4, shape[0]).astype(float)


def autograd(y: np.ndarray, pred: np.ndarray, weight: np.ndarray | None, **settings: Any) -> tuple[float, np.ndarray]:
    f = torch.tensor(pred, requires_grad=True)
    loss = gar_loss(f, torch.from_numpy(y), sample_weight=None if weight is None else torch.from_numpy(weight), **settings)
    loss.backward()
    assert f.grad is not None
    return loss.item(), f.grad.numpy()


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("shape", [(60,), (60, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_is_that_of_the_loss(alpha: float, settings: dict[str, Any], shape: tuple[int, ...], weighted: bool) -> None:
    y, pred, weight = rows(shape)
    counts = weight if weighted else None
    value, gradient = autograd(y, pred, counts, alpha=alpha, **settings)
    objective = GARObjective(alpha=alpha, **settings)
    found = objective.derivatives(y, pred, sample_weight=counts)
    assert found.value == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(found.gradient, gradient, atol=1e-14, rtol=1e-10)
    slope, curvature = objective(y, pred, counts)
    assert slope.shape == curvature.shape == shape
    factor = curvature.sum(0) / found.curvature.sum(0)  # one per target, the same for gradient and curvature
    np.testing.assert_allclose(slope, factor * gradient, atol=1e-10, rtol=1e-10)
    assert (curvature[weight > 0] > 0).all()
    assert curvature.max() <= (weight.max() if weighted else 1.0) + 1e-12


def test_many_rows_are_worked_on_in_blocks() -> None:
    y, pred, weight = rows((100_000,))
    found = GARObjective(alpha=0.5).derivatives(y, pred, sample_weight=weight)
    value, gradient = autograd(y, pred, weight, alpha=0.5)
    assert found.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-9, atol=1e-18)


@pytest.mark.parametrize("level", [0.0, 1e5])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_data_sets_are_differentiated_in_single_precision(level: float, weighted: bool) -> None:
    y, pred, weight = rows((LARGE + 1000,))
    y, pred = (y + level).astype(np.float32), (pred + level).astype(np.float32)
    pred[::7] = y[::7]  # no error has no sign
    counts = weight if weighted else None
    data = xgboost.DMatrix(np.zeros((len(y), 1)), y, weight=counts)
    objective = GARObjective(alpha=0.5)
    for single, double in zip(objective(pred, data), objective(y, pred, counts), strict=True):
        assert single.dtype == np.float32
        assert double.dtype == np.float64
        np.testing.assert_allclose(single, double, rtol=3e-6, atol=3e-6)


def test_newton_steps_descend() -> None:
    """A part of a Newton step, of all rows or of the leaves of a tree, never makes the loss rise."""
    random = np.random.default_rng(0)
    for alpha, seed in [(a, s) for a in (0.1, 1.0, 10.0) for s in range(10)]:
        y, pred, _ = rows(seed=seed)
        objective = GARObjective(alpha=alpha)
        found = objective.derivatives(y, pred)
        step = -found.gradient / found.curvature
        leaves = random.integers(0, 6, len(y))  # what a tree would do of it
        slope, bend = (np.bincount(leaves, values) for values in (found.gradient, found.curvature))
        for direction in (step, -(slope / bend)[leaves]):
            values = [objective.derivatives(y, pred + part * direction).value for part in (0.0, 0.1, 0.3)]
            assert max(values[1:]) < values[0]


def grouped_definition(y: np.ndarray, pred: np.ndarray, groups: np.ndarray, alpha: float) -> torch.Tensor:
    """Pairs inside groups, one by one: every pair of a group of size n counts 1/n."""
    f, target = torch.tensor(pred, requires_grad=True), torch.from_numpy(y)
    same = torch.from_numpy((groups[:, None] == groups[None]).astype(float))
    pairs = same / same.sum(1, keepdim=True) / 2

    def products(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return (pairs * (one[:, None] - one[None]) * (other[:, None] - other[None])).sum()

    error = f - target
    rho = products(f, target) / (products(f, f) * products(target, target)).sqrt()
    components = torch.stack([error.abs().mean(), products(error, error) / len(y), 1 - rho]) + 1e-7
    loss = alpha * (components ** (1 / alpha)).mean().log()
    loss.backward()
    assert f.grad is not None
    return torch.cat([loss.detach().reshape(1), f.grad])


@pytest.mark.parametrize("alpha", [0.5, 1.0, 10.0])
def test_groups_are_pairs_inside_groups(alpha: float) -> None:
    y, pred, _ = rows()
    names = np.array(["monday", "tuesday", "friday", "sunday"])[np.random.default_rng(1).integers(0, 4, 60)]
    names[0] = "alone"
    found = GARObjective(alpha=alpha, groups=names).derivatives(y, pred)
    expected = grouped_definition(y, pred, names, alpha).numpy()
    assert found.value == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(found.gradient, expected[1:], atol=1e-12)


def test_groups_with_weights_are_copies_and_one_group_is_none() -> None:
    y, pred, weight = rows()
    groups = np.arange(60) % 7
    copies = np.repeat(np.arange(60), weight.astype(int))
    weighted = GARObjective(groups=groups).derivatives(y, pred, sample_weight=weight)
    repeated = GARObjective(groups=groups[copies]).derivatives(y[copies], pred[copies])
    assert weighted.value == pytest.approx(repeated.value, rel=1e-12)
    np.testing.assert_allclose(weighted.gradient, np.bincount(copies, repeated.gradient, 60), atol=1e-13)
    np.testing.assert_allclose(weighted.curvature, np.bincount(copies, repeated.curvature, 60), atol=1e-13)
    one = GARObjective(groups=np.zeros(60)).derivatives(y, pred)
    np.testing.assert_allclose(one.gradient, GARObjective().derivatives(y, pred).gradient, atol=1e-13)


def test_groups_may_be_of_several_types() -> None:
    y, pred, _ = rows()
    mixed = ["a", 1, (2, 3)] * 20
    found = GARObjective(groups=mixed).derivatives(y, pred)
    np.testing.assert_allclose(found.gradient, GARObjective(groups=np.arange(60) % 3).derivatives(y, pred).gradient, atol=1e-13)


def test_the_unit_of_labels_does_not_matter_to_the_trees() -> None:
    """The pair is scaled: a curvature of 1 for the average row, in any unit, with components that have the same unit."""
    y, pred, _ = rows()
    objective = GARObjective(components=("mae",))
    slope, curvature = objective(y, pred)
    scaled_slope, scaled_curvature = objective(1000 * y, 1000 * pred)
    np.testing.assert_allclose(scaled_slope, 1000 * slope, rtol=1e-6)
    np.testing.assert_allclose(scaled_curvature, curvature, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.0, 0.2])
def test_the_correlation_waits_for_the_scale(scale: float) -> None:
    """Constant predictions, or some that are too small, are led by absolute errors and differences alone."""
    y, _, _ = rows()
    pred = 7 + scale * (y - 7)
    leading = GARObjective(components=("mae", "diff"))(y, pred)
    for found, expected in zip(GARObjective()(y, pred), leading, strict=True):
        np.testing.assert_array_equal(found, expected)
    alone = GARObjective(components=("diffnorm",))(y, pred)
    np.testing.assert_allclose(alone[0], GARObjective(components=("diff",))(y, pred)[0], rtol=1e-6)
    if scale:
        assert not np.allclose(GARObjective(warm_up=0)(y, pred)[0], leading[0])


def test_starting_score_is_the_best_constant() -> None:
    y, _, weight = rows()
    start = GARObjective.starting_score(y)
    values = [GARObjective().derivatives(y, np.full(60, c)).value for c in (start, start + 0.1, start - 0.1)]
    assert values[0] == min(values)
    assert GARObjective.starting_score(y, weight) == np.median(np.repeat(y, weight.astype(int)))
    many = np.stack([y, 2 * y], 1)
    np.testing.assert_array_equal(GARObjective.starting_score(many), [start, 2 * start])
    np.testing.assert_allclose(GARObjective.starting_score(many, weight), np.array([1, 2]) * GARObjective.starting_score(y, weight))


def table(targets: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 4))
    y = np.stack([np.sin(2 * x[:, k]) + x[:, 3] + 20 * k for k in range(targets)], 1)
    return x, y[:, 0] if targets == 1 else y, random.integers(1, 4, 300).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
def test_both_ways_into_each_library_are_the_same(weighted: bool) -> None:
    x, y, weight = table()
    weight = weight if weighted else None  # type: ignore[assignment]
    objective = GARObjective(alpha=2.0)
    start = objective.starting_score(y)
    native = xgboost.train({"base_score": start, "nthread": 1, "eta": 0.3}, xgboost.DMatrix(x, y, weight=weight), 20, obj=objective)
    wrapped = xgboost.XGBRegressor(objective=objective, base_score=start, n_estimators=20, n_jobs=1, learning_rate=0.3)
    wrapped.fit(x, y, sample_weight=weight)
    np.testing.assert_array_equal(native.predict(xgboost.DMatrix(x)), wrapped.predict(x))
    init = np.full(300, start)
    quiet = {"verbose": -1, "num_threads": 1}
    other = lightgbm.train({"objective": objective, **quiet}, lightgbm.Dataset(x, y, weight=weight, init_score=init), 20)
    regressor = lightgbm.LGBMRegressor(objective=objective, n_estimators=20, n_jobs=1, verbose=-1)
    regressor.fit(x, y, sample_weight=weight, init_score=init)
    np.testing.assert_allclose(other.predict(x), regressor.booster_.predict(x))
    for pred in (native.predict(xgboost.DMatrix(x)), start + other.predict(x)):
        assert np.corrcoef(pred, y)[0, 1] > 0.95


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_several_targets_with_xgboost(strategy: str) -> None:
    x, y, weight = table(targets=3)
    objective = GARObjective()
    params = {"base_score": objective.starting_score(y).tolist(), "multi_strategy": strategy, "tree_method": "hist", "nthread": 1}
    model = xgboost.train(params, xgboost.DMatrix(x, y, weight=weight), 40, obj=objective)
    pred = model.predict(xgboost.DMatrix(x))
    assert pred.shape == (300, 3)
    assert min(np.corrcoef(pred[:, k], y[:, k])[0, 1] for k in range(3)) > 0.97
    assert np.abs(pred - y).mean() < 0.2


def test_objectives_can_be_copied_and_pickled() -> None:
    y, pred, _ = rows()
    objective = GARObjective(alpha=0.5, groups=np.arange(60) % 5)
    for twin in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
        np.testing.assert_array_equal(twin(y, pred)[0], objective(y, pred)[0])
    assert repr(objective) == "GARObjective(alpha=0.5, components=('mae', 'diff', 'diffnorm'), groups=5 groups of 60 rows)"


def largest_rise(values: np.ndarray, rounds: int) -> float:
    assert len(values) == rounds
    assert np.isfinite(values).all()
    return rises(values)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0, 2.0, 10.0])
def test_training_loss_falls_on_concrete(library: str, alpha: float, data_home: Path) -> None:
    data = authors_split("concrete", home=data_home)
    x, y = data.x.numpy(), data.y[:, 0].numpy()
    values = losses_of_rounds(library, x, y, alpha, 500, start=float(np.median(y)))
    assert largest_rise(values, 500) < 0.01
    assert values[-1] < values[0] - 4


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("task", ["wine", "parkinson-total", "parkinson-motor"])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_training_loss_falls(library: str, task: str, alpha: float, data_home: Path) -> None:
    """Some rounds of what ``python -m benchmarks.boosting convergence`` does in full."""
    data = authors_split(task, home=data_home)
    x, y = data.x.numpy()[:2000], data.y[:2000, 0].numpy()
    values = losses_of_rounds(library, x, y, alpha, 100, start=float(np.median(y)))
    assert largest_rise(values, 100) < 0.01
    assert values[-1] < values[0] - 0.5


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_a_bad_start_is_overcome(library: str, alpha: float) -> None:
    """From 0, where libraries start by themselves, with labels around 100."""
    x, y, _ = table()
    values = losses_of_rounds(library, x, y + 100, alpha, 100, start=0.5)
    assert largest_rise(values, 100) < 0.01
    assert values[-1] < values[0] - 4
