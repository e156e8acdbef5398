"""Centred moments of predictions, labels and errors, and the losses that are functions of them alone.

With ``e = f - y`` and a bar for 'minus its mean', the three components of GAR need five sums per column::

    A = S|e|    D = S e_bar^2    F = S f_bar^2    V = S y_bar^2    Q = S f_bar e_bar

All are sums of centred values, so large offsets do not cancel, and errors enter as errors, not as the difference of two
large sums, so a nearly perfect fit keeps its digits.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gar.functional._numbers import Number, Numbers
from gar.validation import Columns


class Moments(NamedTuple):
    """Sums over one column, shape ``(..., columns)`` each; see the top of this module."""

    size: Number
    mean_pred: Number
    mean_target: Number
    mean_error: Number
    absolute: Number  # A
    error: Number  # D
    pred: Number  # F
    target: Number  # V
    cross: Number  # Q


def moments(columns: Columns) -> Moments:
    """All moments of a batch, as differentiable operations."""
    return moments_of(*centred(columns), columns)


def centred(columns: Columns) -> tuple["Centred", "Centred", "Centred"]:
    """Predictions, labels and errors, centred."""
    return tuple(Centred(values, columns) for values in (columns.pred, columns.target, columns.pred - columns.target))  # type: ignore[return-value]


def moments_of(pred: "Centred", target: "Centred", error: "Centred", columns: Columns) -> Moments:
    absolute = columns.total((columns.pred - columns.target).abs())
    squares = (error.times(error), pred.times(pred), target.times(target), pred.times(error))
    return Moments(columns.size(), pred.mean, target.mean, error.mean, absolute, *squares)


class Centred:
    """Values near zero, whose sums of products are corrected for the mean that is left over.

    So corrected, the sums do not depend on what was subtracted, which has three uses: it may be a guess, so that one pass over
    the data gives everything; it may be rounded; and it counts as a constant, so that the gradient needs no sums of its own.
    """

    def __init__(self, values: Tensor, columns: Columns) -> None:
        self.columns = columns
        # The mean of some hundred rows is near enough: sums lose digits only if the guess is many deviations off.
        known = values.detach()
        self.guess = known[..., :_GUESS_FROM].mean(-1) if columns.weight is None else columns.mean(known)
        self.values = values - self.guess.unsqueeze(-1)
        self.rest = columns.mean(self.values)
        self.mean = self.guess + self.rest

    def times(self, other: "Centred") -> Tensor:
        """Sum of products of two centred columns."""
        products = self.columns.total(self.values * other.values)
        return products - self.columns.size() * self.rest * other.rest


_GUESS_FROM = 256


def mean_absolute_error(m: Moments) -> Number:
    return m.absolute / (m.size + (m.size == 0))


def variance_of_errors(m: Moments) -> Number:
    """``1/(2 n^2) S_ij ((f_i - f_j) - (y_i - y_j))^2 = D / n``: the paper's Theorem on the difference loss."""
    return m.error / (m.size + (m.size == 0))


def one_minus_pearson(m: Moments, *, eps: float, unit: float, correction: int, xp: Numbers) -> Number:
    """``1 - rho``, in the form that keeps its digits where ``rho`` is near one; 1, without gradient, where it is undefined.

    With ``K = S f_bar y_bar = F - Q`` and ``s = sqrt(F V)``: ``1 - rho = (s - K)/s = (s^2 - K^2)/(s (s + K))``, and
    ``s^2 - K^2 = F D - Q^2``, the Gram determinant of predictions and errors, which is small when the errors are.
    ``unit`` is the rounding unit of the dtype that the moments were summed in.
    """
    defined = is_correlation_defined(m, eps=eps, unit=unit)
    pred, target = xp.where(defined, m.pred, 1.0), xp.where(defined, m.target, 1.0)
    scale = pred**0.5 * target**0.5
    covariance = m.pred - m.cross
    # The determinant itself would cancel where predictions spread much wider than labels: there the plain form is better.
    near_one = (covariance > 0.5 * scale) & (pred < 4.0 * target)
    divisor = scale + xp.where(near_one, covariance, scale)
    determinant = (pred / scale) * (m.error / divisor) - (m.cross / scale) * (m.cross / divisor)
    value = xp.where(near_one, determinant, 1.0 - covariance / scale)
    value = xp.where(value < 0, 0.0, value)  # by rounding, where predictions and labels are parallel
    return bessel(m, correction) * xp.where(defined, value, 1.0)


def is_correlation_defined(m: Moments, *, eps: float, unit: float) -> Number:
    """Whether both standard deviations are above ``eps`` and above the rounding of their mean."""
    size = m.size + (m.size == 0)
    return _spreads(m.pred / size, m.mean_pred, eps, unit) & _spreads(m.target / size, m.mean_target, eps, unit)


def bessel(m: Moments, correction: int) -> Number:
    """Factor of the normalised difference when standard deviations divide by ``n - correction`` (DIFF-3), never below zero."""
    if correction == 0:
        return 1.0
    excess = m.size - correction
    return (excess > 0) * excess / (m.size + (m.size == 0))


def _spreads(variance: Number, mean: Number, eps: float, unit: float) -> Number:
    rounding = 2.0 * unit * mean
    return ((variance > eps * eps) & (variance > rounding * rounding)) | (variance != variance)  # NaN stays visible


def rounding_unit(like: Tensor) -> float:
    return torch.finfo(like.dtype).eps


def merge(parts: Moments) -> Moments:
    """Moments of the union of several batches; every field has the batches along its first dimension (Chan et al. 1983)."""
    size = parts.size.sum(0)
    share = parts.size / (size + (size == 0))
    mean_pred, mean_target, mean_error = ((share * mean).sum(0) for mean in parts[1:4])
    pred_shift, target_shift = parts.mean_pred - mean_pred, parts.mean_target - mean_target
    error_shift = parts.mean_error - mean_error
    return Moments(
        size,
        mean_pred,
        mean_target,
        mean_error,
        parts.absolute.sum(0),
        (parts.error + parts.size * error_shift**2).sum(0),
        (parts.pred + parts.size * pred_shift**2).sum(0),
        (parts.target + parts.size * target_shift**2).sum(0),
        (parts.cross + parts.size * pred_shift * error_shift).sum(0),
    )
