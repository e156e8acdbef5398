"""GAR of one model with one target on the CPU, in Python floats: the usual call, in which arrays of one number would take
most of the time.

The formulas are those of :mod:`gar.functional.formulas` for one column; letters are those of :mod:`gar.functional.moments`.
"""

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
    f, y = pred.astype(np.float64), target.astype(np.float64)
    if math.isfinite(f.dot(f) + y.dot(y)):
        value, gradient = _solve(f, y, alpha, settings, columns)
    else:
        with np.errstate(all="ignore"):  # what is not finite shows in the result and needs no warning
            value, gradient = _solve(f, y, alpha, settings, columns)
    return torch.full((), value, dtype=columns.pred.dtype), torch.from_numpy(gradient.astype(pred.dtype, copy=False))


def _solve(f: np.ndarray, y: np.ndarray, alpha: float, settings: "GARSettings", columns: Columns) -> tuple[float, np.ndarray]:
    """Return the loss and its gradient, which is built in the memory of the errors; all arrays are overwritten."""
    n = float(len(f))
    e = f - y
    sign = np.sign(e)
    absolute = float(e.dot(sign))
    mean_error, error = _centre(e, n)
    mean_pred, pred = _centre(f, n)
    mean_target, target = _centre(y, n)
    if settings.nan_policy == "raise" and not math.isfinite(mean_target):
        check_labels(columns.target)
    moments = Moments(n, mean_pred, mean_target, mean_error, absolute, error, pred, target, float(f.dot(e)))
    value, (by_sign, by_error, by_pred) = solve_floats(moments, alpha, settings, torch.finfo(columns.pred.dtype).eps)
    e *= by_error
    f *= by_pred
    sign *= by_sign
    e += f
    e += sign
    return value, e


def _centre(values: np.ndarray, n: float) -> tuple[float, float]:
    """Take the mean off values in place; return it and the sum of squares."""
    mean = float(np.add.reduce(values)) / n
    values -= mean
    square = float(values.dot(values))
    if abs(mean) * 1e-12 > math.sqrt(square / n):  # a rounded mean shows where it is large against the spread
        rest = float(np.add.reduce(values)) / n
        values -= rest
        return mean + rest, float(values.dot(values))
    return mean, square


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
