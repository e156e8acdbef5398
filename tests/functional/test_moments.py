"""One set of moments, whichever way it is summed."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gar.functional.formulas import Moments, rounding_noise
from gar.functional.moments import (
    CentredBatch,
    DifferentiableBatch,
    ShiftedSums,
    SmallBatches,
    TensorBatch,
    merge,
    without_rest,
)
from gar.validation import Columns


def columns(*shape: int, offset: float = 0.0, weighted: bool = False) -> Columns:
    target = torch.randn(shape, dtype=torch.float64) + offset
    pred = target + 0.5 * torch.randn(shape, dtype=torch.float64)
    return Columns(pred, target, torch.rand(shape, dtype=torch.float64) if weighted else None, None)


def expected(pred: Tensor, target: Tensor, weight: Tensor | None) -> list[float]:
    """The definitions, for one column."""
    w = torch.ones_like(pred) if weight is None else weight
    n = w.sum()
    f, y, e = pred, target, pred - target
    means = [(w * x).sum() / n for x in (f, y, e)]
    f_bar, y_bar, e_bar = (x - mean for x, mean in zip((f, y, e), means, strict=True))
    products = [(w * one * other).sum() for one, other in ((e_bar, e_bar), (f_bar, f_bar), (y_bar, y_bar), (f_bar, e_bar))]
    return [float(x) for x in (n, *means, (w * e.abs()).sum(), *products)]


@pytest.mark.parametrize("way", [DifferentiableBatch, TensorBatch])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_column_has_its_moments(way: type[CentredBatch], weighted: bool, offset: float) -> None:
    batch = columns(300, offset=offset, weighted=weighted)
    found = [float(value) for value in way(batch).moments]  # type: ignore[call-arg]
    assert found == pytest.approx(expected(batch.pred, batch.target, batch.weight), rel=1e-7)


@pytest.mark.parametrize("way", [DifferentiableBatch, TensorBatch, SmallBatches])
def test_every_column_of_a_stack_has_its_own(way: type[CentredBatch]) -> None:
    double = columns(2, 3, 20)
    batch = Columns(double.pred.float(), double.target.float(), None, None)
    m = way(batch).moments  # type: ignore[call-arg]
    for index in np.ndindex(2, 3):
        mine = [float(field if isinstance(field, float) else field[index]) for field in m]
        assert mine == pytest.approx(expected(batch.pred[index].double(), batch.target[index].double(), None), rel=1e-4, abs=1e-5)


def test_moments_of_parts_merge() -> None:
    batch = columns(90, offset=100.0, weighted=True)
    assert batch.weight is not None
    parts = [
        DifferentiableBatch(Columns(batch.pred[rows], batch.target[rows], batch.weight[rows], None)).moments
        for rows in (slice(0, 10), slice(10, 10), slice(10, 90))
    ]
    merged = merge(Moments(*(torch.stack([torch.as_tensor(value) for value in field]) for field in zip(*parts, strict=True))))
    assert [float(x) for x in merged] == pytest.approx(expected(*batch[:3]), rel=1e-9)


@pytest.mark.parametrize("guess", [0.0, 0.3, -2.0])
def test_shifted_sums_do_not_depend_on_the_guess(guess: float) -> None:
    batch = columns(50)
    f, e = (batch.pred - guess).numpy(), (batch.pred - batch.target - 2 * guess).numpy()
    absolute = float((batch.pred - batch.target).abs().sum())
    sums = ShiftedSums(absolute, f.sum(), e.sum(), e @ e, f @ f, f @ e)
    assert list(sums.moments(50.0, guess, 2 * guess)) == pytest.approx(expected(*batch[:3]), rel=1e-9)


def test_labels_that_are_lost_in_rounding_are_constant() -> None:
    f = 1e9 + np.arange(5.0)
    centred = f - f.mean()
    sums = ShiftedSums(f.sum(), 0.0, 0.0, centred @ centred, centred @ centred, centred @ centred)  # errors are predictions
    assert sums.moments(5.0, f.mean(), f.mean()).target == 0.0


def test_the_rest_of_a_mean_is_taken_out() -> None:
    x, y = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 0.0])
    centred = ((x - x.mean()) * (y - y.mean())).sum()
    assert without_rest((x * y).sum(), 3, x.mean(), y.mean()) == pytest.approx(centred)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.1, -1e6 / 3, 7e-9])
def test_equal_values_are_constant_up_to_rounding(dtype: type[np.floating], value: float) -> None:
    unit = float(np.finfo(dtype).eps)
    for n in (3, 10, 1000, 12345):
        values = np.full(n, value, dtype)
        mean = values.mean()
        assert np.sqrt(((values - mean) ** 2).mean()) <= rounding_noise(mean, unit)
    assert rounding_noise(torch.tensor([-2.0]), 0.5) == torch.tensor([8.0])
    assert not math.sqrt(0.5) <= rounding_noise(1.0, unit)
