"""GAR's formulas over a few numbers, from the moments of a batch to the loss and the coefficients of its gradient.

A formula over moments is a few dozen operations. Numpy arrays (a stack of models on the CPU) make them cheap, torch tensors can be
differentiated, traced and left on another device. So that each formula is written once for both, it takes a :class:`NumberSystem`
as ``xp``, which has ``where``, ``log`` and their like; plain arithmetic needs no help. For one model with one target they stand in
Python floats in :mod:`gar.functional.single`. Letters are those of :mod:`gar.functional.moments`.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from gar.functional.gar import GARSettings

Number = Any
"""A numpy array, a torch tensor, or a float for the sums of a single column."""


class Moments(NamedTuple):
    """Sums over one column, shape ``(..., columns)`` each; see the top of :mod:`gar.functional.moments`."""

    size: Number
    mean_pred: Number
    mean_target: Number
    mean_error: Number
    absolute: Number  # A
    error: Number  # D
    pred: Number  # F
    target: Number  # V
    cross: Number  # Q


class NumberSystem:
    """The functions that the formulas need, of numpy; torch differs only in the two methods. Columns are the last axis."""

    def __init__(self, module: Any) -> None:
        self.where, self.exp, self.expm1 = module.where, module.exp, module.expm1
        self.log, self.log1p, self.maximum = module.log, module.log1p, module.maximum

    def constant(self, x: Number) -> Number:
        return x

    def largest(self, values: Sequence[Number]) -> Number:
        result = values[0]
        for value in values[1:]:
            result = self.maximum(result, value)
        return result


class _Tensors(NumberSystem):
    """Tensors on any device, with derivatives; equal maxima share theirs evenly."""

    def largest(self, values: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(values)).amax(0)

    def constant(self, x: Tensor) -> Tensor:
        return x.detach()


ARRAYS = NumberSystem(np)
TENSORS = _Tensors(torch)


class Exchange(Protocol):
    """What a batch that is spread over several processes needs from the others."""

    def merged(self, local: Moments) -> Moments:
        """Return the moments of the joined batch of all processes."""

    def joined(self, sums: list[Number]) -> list[Number]:
        """Return sums over the columns of all processes, given those over the columns of this one."""


def solve_moments(
    m: Moments,
    share: Number,
    alpha: Number,
    settings: "GARSettings",
    unit: float,
    xp: NumberSystem,
    exchange: Exchange | None = None,
) -> tuple[Number, tuple[Number, Number, Number]]:
    """Return the loss of each model, and the coefficients of its gradient in each column."""
    spreads = spreads_of(m, eps=settings.eps, unit=unit, xp=xp)
    part, means, count = mean_components(m, share, settings, spreads, xp, exchange)
    components = weighted_components(means, settings)
    logs = [xp.log(component) for component in components]
    value = log_power_mean(logs, alpha, xp=xp)
    slopes = [p / component for p, component in zip(attention(logs, alpha, xp=xp), components, strict=True)]
    if settings.form == "exp":
        value = xp.exp(value)
        slopes = [value * slope for slope in slopes]
    value = xp.where(count == 0, 0.0, value)  # nothing counts, so there is nothing to learn
    return value, gradient_coefficients(m, part, slopes, settings, spreads, xp)


def mean_components(
    m: Moments, share: Number, settings: "GARSettings", spreads: "Spreads", xp: NumberSystem, exchange: Exchange | None = None
) -> tuple[Number, list[Number], Number]:
    """Return each column's part in the mean over columns, the components of the models, neither weighted nor aggregated, and the
    number of columns that count."""
    totals = [(value * share).sum(-1) for value in column_components(m, settings, spreads, xp)]
    count = share.sum(-1)
    if exchange is not None and settings.pairs == "targets":  # no pair crosses processes then, only the mean over rows does
        count, *totals = exchange.joined([count, *totals])
    divisor = count + (count == 0)
    return share / divisor[..., None], [total / divisor for total in totals], count


def column_components(m: Moments, settings: "GARSettings", spreads: "Spreads", xp: NumberSystem) -> list[Number]:
    """Return the chosen components of every column, neither weighted nor averaged."""
    return [component(name, m, settings, spreads, xp) for name in settings.components]


def component(name: str, m: Moments, settings: "GARSettings", spreads: "Spreads", xp: NumberSystem) -> Number:
    """Return one component of every column."""
    if name == "mae":
        return mean_absolute_error(m)
    if name == "diff":
        return variance_of_errors(m)
    if name == "ccc":
        return concordance(m, eps=settings.eps, xp=xp)
    if name == "nse":
        return nash_sutcliffe(m, spreads, xp=xp)
    if name == "kge":
        return kling_gupta(m, spreads, xp=xp)
    return one_minus_pearson(m, spreads, correction=settings.correction, xp=xp)


def weighted_components(components: list[Number], settings: "GARSettings") -> list[Number]:
    """Apply weights and eps: the aggregation takes the logarithm of the result."""
    return [weight * value + settings.eps for weight, value in zip(settings.all_weights, components, strict=True)]


def mean_absolute_error(m: Moments) -> Number:
    """Return ``A / n``."""
    return m.absolute / (m.size + (m.size == 0))


def variance_of_errors(m: Moments) -> Number:
    """Return ``1/(2 n^2) S_ij ((f_i - f_j) - (y_i - y_j))^2 = D / n``: the paper's Theorem on the difference loss."""
    return m.error / (m.size + (m.size == 0))


def one_minus_pearson(m: Moments, spreads: "Spreads", *, correction: int = 0, xp: NumberSystem) -> Number:
    """Return ``1 - rho``, in the form that keeps its digits where ``rho`` is near one; 1, without gradient, where it is undefined.

    With ``K = S f_bar y_bar = F - Q`` and ``s = sqrt(F V)``: ``1 - rho = (s - K)/s = (s^2 - K^2)/(s (s + K))``, and
    ``s^2 - K^2 = F D - Q^2``, the Gram determinant of predictions and errors, which is small when the errors are.
    """
    defined, pred, target, scale, _ = spreads
    covariance = m.pred - m.cross
    # The determinant itself would cancel where predictions spread much wider than labels: there the plain form is better.
    near_one = (covariance > 0.5 * scale) & (pred < 4.0 * target)
    divisor = scale + xp.where(near_one, covariance, scale)
    determinant = (pred / scale) * (m.error / divisor) - (m.cross / scale) * (m.cross / divisor)
    value = xp.where(near_one, determinant, 1.0 - covariance / scale)
    value = xp.where(value < 0, 0.0, value)  # by rounding, where predictions and labels are parallel
    return _bessel(m, correction) * xp.where(defined, value, 1.0)


def mean_squared_error(m: Moments) -> Number:
    """Return ``D / n`` plus the square of the mean error."""
    return variance_of_errors(m) + m.mean_error * m.mean_error


def concordance(m: Moments, *, eps: float, xp: NumberSystem) -> Number:
    """Return one minus Lin's concordance: ``MSE / (v_f + v_y + (m_f - m_y)^2)``, which does not cancel near a perfect fit."""
    spread = (m.pred + m.target) / (m.size + (m.size == 0)) + m.mean_error * m.mean_error
    return mean_squared_error(m) / xp.where(spread <= eps * eps, 1.0, spread)


def nash_sutcliffe(m: Moments, spreads: "Spreads", *, xp: NumberSystem) -> Number:
    """Return ``MSE / v_y``; 1 where labels are constant."""
    return xp.where(spreads.labels, mean_squared_error(m) * m.size / xp.where(spreads.labels, m.target, 1.0), 1.0)


def kling_gupta(m: Moments, spreads: "Spreads", *, variant: str = "2009", level: str = "ratio", xp: NumberSystem) -> Number:
    """Return the distance of correlation, scale and level from those of a perfect fit; 1 where labels are constant.

    ``s_f / s_y - 1 = (F - V) / (V + sqrt(F V))``, where ``F - V = 2 Q - D``, and ``m_f / m_y - 1 = m_e / m_y``: both keep digits.
    """
    target, moves = xp.where(spreads.labels, m.target, 1.0), m.pred > 0
    root = (xp.where(moves, m.pred, 1.0) * target) ** 0.5
    scale = xp.where(moves, (2.0 * m.cross - m.error) / (target + root), -1.0)
    size = m.size + (m.size == 0)
    shift = m.mean_error / ((target / size) ** 0.5 if level == "deviation" else m.mean_target + (m.mean_target == 0))
    if variant == "2012":
        factor = xp.where(abs(1.0 + shift) <= 1e-7, 1e-7, 1.0 + shift)  # predictions whose mean is 0 have no such coefficient
        scale = (scale - shift) / factor
    square = one_minus_pearson(m, spreads, xp=xp) ** 2 + scale**2 + shift**2
    value = xp.where(square <= 0, 0.0, xp.where(square <= 0, 1.0, square) ** 0.5)
    return xp.where(spreads.labels, value, 1.0)


class Spreads(NamedTuple):
    """Where the correlation is defined; there ``F``, ``V`` and ``sqrt(F V)``, elsewhere 1. And where labels differ."""

    defined: Number
    pred: Number
    target: Number
    scale: Number
    labels: Number


def spreads_of(m: Moments, *, eps: float, unit: float, xp: NumberSystem) -> Spreads:
    """Return the spreads of predictions and labels. A correlation is defined where both standard deviations are above ``eps`` and
    above the rounding of their mean; ``unit`` is the rounding unit of the dtype that the moments were summed in."""
    size = m.size + (m.size == 0)
    labels = is_spread(m.target / size, m.mean_target, eps, unit)
    defined = is_spread(m.pred / size, m.mean_pred, eps, unit) & labels
    pred, target = xp.where(defined, m.pred, 1.0), xp.where(defined, m.target, 1.0)
    return Spreads(defined, pred, target, pred**0.5 * target**0.5, labels)


def is_spread(variance: Number, mean: Number, eps: float, unit: float) -> Number:
    """Return True where a standard deviation is above ``eps`` and above the rounding of the mean."""
    noise = rounding_noise(mean, unit, slack=TWICE_CENTRED)
    return ((variance > eps * eps) & (variance > noise * noise)) | (variance != variance)  # NaN stays visible


TWICE_CENTRED = 2.0
"""The slack of values whose mean was taken off twice, so that hardly any rounding is left."""


def rounding_noise(mean: Number, unit: float, *, slack: float = 8.0) -> Number:
    """Return the standard deviation that equal values may seem to have by rounding; a column with no larger one is constant.

    The mean of many equal values may be a few units of rounding off, and so are then the deviations from it.

    Args:
        mean: the mean of the column, or another value of its size: a float, an array or a tensor.
        unit: the rounding unit of its dtype, such as ``np.finfo(np.float64).eps``.
        slack: the number of such units that the mean may be off.

    Example:
        >>> values = np.full(3, 0.1)
        >>> bool(0 < values.std() <= rounding_noise(values.mean(), np.finfo(np.float64).eps))
        True
    """
    return slack * unit * abs(mean)


def _bessel(m: Moments, correction: int) -> Number:
    """Return the factor of the normalised difference when standard deviations divide by ``n - correction``, never below zero."""
    if correction == 0:
        return 1.0
    excess = m.size - correction
    return (excess > 0) * excess / (m.size + (m.size == 0))


def log_power_mean(logs: Sequence[Number], alpha: Number, *, xp: NumberSystem) -> Number:
    """Return ``alpha log mean exp(logs / alpha)``, exact for every alpha from 0 to infinity.

    The largest logarithm is taken out first, as a constant, so nothing overflows; ``log1p`` and ``expm1`` keep the digits
    that ``log(1 + tiny)`` would lose for large alpha.
    """
    if _is_usual(alpha):
        return _smooth(logs, alpha, xp)
    if isinstance(alpha, (float, int)):
        return xp.largest(logs) if alpha == 0 else _mean(logs)
    usual = (alpha > 0) & (alpha < math.inf)
    value = _smooth(logs, xp.where(usual, alpha, 1.0), xp)
    return xp.where(usual, value, xp.where(alpha == 0, xp.largest(logs), _mean(logs)))


def attention(logs: Sequence[Number], alpha: Number, *, xp: NumberSystem) -> list[Number]:
    """Return the derivative of :func:`log_power_mean` by each logarithm: the maximising ``p`` of the KL form, which sums to one."""
    largest = xp.largest(logs)
    below = [log - largest for log in logs]
    if _is_usual(alpha):
        weights = [xp.exp(b / alpha) for b in below]
    elif isinstance(alpha, (float, int)):
        weights = [_weight_at_limit(b, alpha) for b in below]
    else:
        usual = (alpha > 0) & (alpha < math.inf)
        safe = xp.where(usual, alpha, 1.0)
        at_limit = [xp.where(alpha == 0, _weight_at_limit(b, 0.0), _weight_at_limit(b, math.inf)) for b in below]
        weights = [xp.where(usual, xp.exp(b / safe), limit) for b, limit in zip(below, at_limit, strict=True)]
    total = sum(weights)
    return [weight / total for weight in weights]


def _is_usual(alpha: Number) -> bool:
    """Return True if alpha is known to be nowhere 0 or infinite; False for a tensor, since a look into it would make a GPU wait."""
    if isinstance(alpha, (float, int)):
        return 0 < alpha < math.inf
    return isinstance(alpha, np.ndarray) and bool(((alpha > 0) & (alpha < math.inf)).all())


def _weight_at_limit(below: Number, alpha: float) -> Number:
    """Return 1 for every loss if alpha is infinite; if it is 0, only for the largest, where ``below`` is 0. NaN stays NaN."""
    return below * 0.0 + 1.0 if alpha else (below == 0) * 1.0 + (below - below)


def _smooth(logs: Sequence[Number], alpha: Number, xp: NumberSystem) -> Number:
    largest = xp.constant(xp.largest(logs))
    return largest + alpha * xp.log1p(_mean([xp.expm1((log - largest) / alpha) for log in logs]))


def _mean(values: Sequence[Number]) -> Number:
    return sum(values[1:], values[0]) / len(values)


def gradient_coefficients(
    m: Moments, part: Number, slopes: list[Number], settings: "GARSettings", spreads: "Spreads", xp: NumberSystem
) -> tuple[Number, Number, Number]:
    """Return the factors of sign, centred error and centred prediction in the gradient, per column.

    The derivatives by ``f_i``: of ``A / n``, ``sign(e_i) / n``; of ``D / n``, ``2 e_bar_i / n``; of ``1 - rho``,
    ``(e_bar_i - (Q / F) f_bar_i) / sqrt(F V)``, the part of the error that is orthogonal to the prediction. Each is multiplied by
    the slope of the loss by its component.
    """
    by_sign = by_error = by_pred = 0.0 * part
    size = m.size + (m.size == 0)
    for name, weight, slope in zip(settings.components, settings.all_weights, slopes, strict=True):
        height = weight * slope[..., None] * part
        if name == "mae":
            by_sign = height / size
        elif name == "diff":
            by_error = by_error + 2.0 * height / size
        else:
            height = xp.where(spreads.defined, height * _bessel(m, settings.correction) / spreads.scale, 0.0)
            by_error, by_pred = by_error + height, -height * m.cross / spreads.pred
    return by_sign, by_error, by_pred
