"""GAR of one model with one target on the CPU, in Python floats: the usual call, in which arrays of one number would take
most of the time.

The formulas are those of :mod:`gar.functional.formulas` for one column; letters are those of :mod:`gar.functional.moments`.
"""

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gar.functional.formulas import TWICE_CENTRED, Moments
from gar.validation import Columns, check_labels

if TYPE_CHECKING:
    from gar.functional.gar import GARSettings

LARGEST = 4096
"""The most rows for which numpy in double precision is not slower than tensors, as measured by ``python -m benchmarks.losses``."""

_LEAST_ALPHA, _LARGEST_ALPHA = 1e-300, 1e300
"""Nearer to 0 or infinity, the aggregation is the maximum or the mean of logarithms to the last digit of a float."""


def suits(columns: Columns) -> bool:
    """Return True for one column of few rows that count alike."""
    pred = columns.pred
    return pred.ndim == 1 and columns.weight is None and pred.shape[0] <= LARGEST and pred.device.type == "cpu"


def value_and_gradient(columns: Columns, alpha: float, settings: "GARSettings") -> tuple[Tensor, Tensor]:
    """Return the loss, a single number, and its gradient by ``columns.pred``, both computed in double precision."""
    pred, target = columns.pred.detach().numpy(), columns.target.detach().numpy()
    with np.errstate(all="ignore"):  # what is not finite shows in the result and needs no warning
        value, gradient = _solve(pred.astype(np.float64), target.astype(np.float64), alpha, settings, columns)
    return torch.full((), value, dtype=columns.pred.dtype), torch.from_numpy(gradient.astype(pred.dtype, copy=False))


def _solve(f: np.ndarray, y: np.ndarray, alpha: float, settings: "GARSettings", columns: Columns) -> tuple[float, np.ndarray]:
    """Return the loss and its gradient, which is built in the memory of the errors; all arrays are overwritten."""
    e = f - y
    sign = np.sign(e)
    absolute = float(e.dot(sign))
    m = rest = _moments(f, y, e, absolute)
    if _is_far_off(m):
        f -= m.mean_pred
        y -= m.mean_target
        e -= m.mean_error
        rest = _moments(f, y, e, absolute)
        means = [mean + more for mean, more in zip(m[1:4], rest[1:4], strict=True)]
        m = Moments._make([m.size, *means, *rest[4:]])
    if settings.nan_policy == "raise" and not math.isfinite(m.mean_target):
        check_labels(columns.target)
    value, (by_sign, by_error, by_pred) = solve_floats(m, alpha, settings, _unit(columns.pred.dtype))
    e *= by_error
    f *= by_pred
    sign *= by_sign
    e += f
    e += sign
    e -= by_error * rest.mean_error + by_pred * rest.mean_pred
    return value, e


def _moments(f: np.ndarray, y: np.ndarray, e: np.ndarray, absolute: float) -> Moments:
    """Return the moments of a column, by products alone: each is a single call."""
    n, ones = float(len(f)), _ones(len(f))
    pred, target, error = float(f.dot(ones)) / n, float(y.dot(ones)) / n, float(e.dot(ones)) / n
    error_square = float(e.dot(e)) - n * error * error
    pred_square = float(f.dot(f)) - n * pred * pred
    target_square = float(y.dot(y)) - n * target * target
    cross = float(f.dot(e)) - n * pred * error
    return Moments(n, pred, target, error, absolute, error_square, pred_square, target_square, cross)


@functools.lru_cache(maxsize=8)
def _ones(n: int) -> np.ndarray:
    return np.ones(n)


@functools.cache
def _unit(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _is_far_off(m: Moments) -> bool:
    """Return True where a mean is large against its spread: centred sums lose digits then, so the means must be taken off first."""
    most = 100.0 / m.size
    return bool(m.mean_error**2 > most * m.error or m.mean_pred**2 > most * m.pred or m.mean_target**2 > most * m.target)


def solve_floats(m: Moments, alpha: float, settings: "GARSettings", unit: float) -> tuple[float, tuple[float, float, float]]:
    """Return the loss, and the coefficients of sign, centred error and centred prediction in its gradient.

    Like :func:`gar.functional.formulas.solve_moments`, which explains them.
    """
    if m.size == 0:
        return 0.0, (0.0, 0.0, 0.0)  # nothing counts, so there is nothing to learn
    values, scale = float_components(m, settings, unit)
    components = [weight * value + settings.eps for weight, value in zip(settings.all_weights, values, strict=True)]
    alpha = min(max(alpha, _LEAST_ALPHA), _LARGEST_ALPHA)
    logs = [math.log(component) for component in components]
    largest = max(logs)
    powers = [math.expm1((log - largest) / alpha) for log in logs]
    total = sum(powers)
    value = largest + alpha * math.log1p(total / len(powers))
    height = 1.0 / (total + len(powers))
    if settings.form == "exp":
        value = math.exp(value)
        height *= value
    by_sign = by_error = by_pred = 0.0
    for name, weight, power, component in zip(settings.components, settings.all_weights, powers, components, strict=True):
        slope = weight * height * (1.0 + power) / component
        if name == "mae":
            by_sign = slope / m.size
        elif name == "diff":
            by_error += 2.0 * slope / m.size
        elif scale:
            slope *= _bessel(m.size, settings.correction) / scale
            by_error += slope
            by_pred = -slope * m.cross / m.pred
    return value, (by_sign, by_error, by_pred)


def float_components(m: Moments, settings: "GARSettings", unit: float) -> tuple[list[float], float]:
    """Return the chosen components, neither weighted nor aggregated, and ``sqrt(F V)``, 0 where there is no correlation."""
    size, scale = m.size or 1.0, 0.0
    values: list[float] = []
    for name in settings.components:
        if name == "mae":
            values.append(m.absolute / size)
        elif name == "diff":
            values.append(m.error / size)
        else:
            scale = _scale(m, size, settings.eps, unit)
            values.append(_bessel(size, settings.correction) * (_one_minus_pearson(m, scale) if scale else 1.0))
    return values, scale


def _scale(m: Moments, size: float, eps: float, unit: float) -> float:
    """Return ``sqrt(F V)``; 0 where predictions or labels are constant up to rounding. NaN is not constant and stays visible."""
    for square, mean in ((m.pred, m.mean_pred), (m.target, m.mean_target)):
        if square / size <= max(eps, abs(TWICE_CENTRED * unit * mean)) ** 2:
            return 0.0
    return math.sqrt(m.pred) * math.sqrt(m.target)


def _one_minus_pearson(m: Moments, scale: float) -> float:
    covariance: float = m.pred - m.cross
    value = 1.0 - covariance / scale
    if covariance > 0.5 * scale and m.pred < 4.0 * m.target:
        divisor = scale + covariance
        value = m.pred / scale * (m.error / divisor) - m.cross / scale * (m.cross / divisor)
    return max(value, 0.0)


def _bessel(size: float, correction: int) -> float:
    return max(size - correction, 0.0) / size if correction else 1.0
