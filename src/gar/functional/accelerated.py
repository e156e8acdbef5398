"""GAR's value and gradient on an accelerator: few kernels, and no step that waits for the device.

On a GPU a launch costs about as much as the arithmetic of a batch. So the numbers of a batch stay in a few small tensors that are
worked on together, and nothing is fetched. The formulas are those of :mod:`gar.functional.formulas` in another form:

- predictions, labels and errors are stacked, and centred twice, since a mean is a rounded number;
- with standardised predictions ``u`` and labels ``v``, ``1 - rho = mean((u - v)^2) / 2``: rounding of the standard deviations
  enters only by its square, so this keeps its digits where ``rho`` is near one, without a branch;
- the derivative of ``1 - rho`` by ``f_i`` is ``(e_i - mean(u e) u_i) / (n s_f s_y)``, the part of the centred error that is
  orthogonal to the predictions;
- alpha is moved a little away from 0 and infinity, where the aggregation has its limits to the last digit.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gar.functional.formulas import TWICE_CENTRED
from gar.validation import Columns

if TYPE_CHECKING:
    from gar.functional.gar import GARSettings

_LEAST_ALPHA, _LARGEST_ALPHA = 1e-30, 1e30
"""Nearer to 0 or infinity, the aggregation is the maximum or the mean of logarithms to the last digit of a float."""


def value_and_gradient(columns: Columns, alpha: float | Tensor, settings: "GARSettings") -> tuple[Tensor, Tensor]:
    """Return the loss, shape ``(...)``, and its gradient by ``columns.pred``, of the shape of that."""
    if columns.pred.ndim > 1:
        return _solve(*columns, alpha, settings)
    weight, share = (None if values is None else values.unsqueeze(0) for values in columns[2:])
    value, gradient = _solve(columns.pred.unsqueeze(0), columns.target.unsqueeze(0), weight, share, alpha, settings)
    return value, gradient.squeeze(0)


def _solve(
    pred: Tensor, target: Tensor, weight: Tensor | None, share: Tensor | None, alpha: float | Tensor, settings: "GARSettings"
) -> tuple[Tensor, Tensor]:
    rows = _Rows(pred, weight)
    values = torch.stack((pred, target, pred - target))
    guess = rows.mean(values)
    variance, centred = rows.variance(values - guess)
    constant = _is_constant(variance[:2], guess[:2], settings.eps)
    inverse = variance[:2].rsqrt().masked_fill(constant, 0.0)
    standard = centred[:2] * inverse
    diffnorm = torch.add(constant, rows.mean_square(standard[0] - standard[1]), alpha=0.5)  # 1 where there is no correlation
    bessel = rows.bessel(settings.correction)
    found = {
        "mae": lambda: rows.mean(values[2].abs()),
        "diff": lambda: variance[2],
        "diffnorm": lambda: diffnorm if bessel is None else bessel * diffnorm,
    }
    chosen = list(zip(settings.components, settings.all_weights, strict=True))
    components = torch.stack([found[name]() if weight == 1 else weight * found[name]() for name, weight in chosen]).squeeze(-1)
    value, slopes = _aggregate(components, share, alpha, settings)
    parts = zip(chosen, slopes.unsqueeze(-1).unbind(0), strict=True)
    slope = {name: part if weight == 1 else weight * part for (name, weight), part in parts}
    gradient: Tensor | None = None
    if "diffnorm" in slope:
        factor = slope["diffnorm"] * inverse.prod(0)
        factor = factor if bessel is None else factor * bessel
        orthogonal = torch.addcmul(centred[2], standard[0], rows.mean(standard[0] * centred[2]), value=-1.0)
        gradient = orthogonal * factor
    if "diff" in slope:
        error = centred[2]
        gradient = 2.0 * slope["diff"] * error if gradient is None else torch.addcmul(gradient, error, slope["diff"], value=2.0)
    if "mae" in slope:
        sign = values[2].sign()
        gradient = slope["mae"] * sign if gradient is None else torch.addcmul(gradient, sign, slope["mae"])
    assert gradient is not None
    return value, rows.spread(gradient)


class _Rows:
    """Means over rows, each of which counts by its weight."""

    def __init__(self, like: Tensor, weight: Tensor | None) -> None:
        self._count, self._weight = like.shape[-1], weight
        if weight is not None:
            self._size = weight.sum(-1, keepdim=True)
            self._share = weight / self._size.clamp(min=torch.finfo(weight.dtype).tiny)

    def mean(self, values: Tensor) -> Tensor:
        if self._weight is None:
            return values.mean(-1, keepdim=True)
        return (self._share * values).sum(-1, keepdim=True)

    def mean_square(self, centred: Tensor) -> Tensor:
        if self._weight is None:
            return torch.var(centred, -1, correction=0, keepdim=True)  # one kernel; the mean is zero
        return (self._share * centred * centred).sum(-1, keepdim=True)

    def variance(self, centred: Tensor) -> tuple[Tensor, Tensor]:
        """Return the variance of nearly centred values, and the values without the mean that was left over."""
        if self._weight is None:
            variance, rest = torch.var_mean(centred, -1, correction=0, keepdim=True)
            return variance, centred - rest
        centred = centred - self.mean(centred)
        return self.mean_square(centred), centred

    def bessel(self, correction: int) -> Tensor | float | None:
        """Return the factor of the normalised difference when standard deviations divide by ``n - correction``; None for 1."""
        if correction == 0:
            return None
        if self._weight is None:
            return max(self._count - correction, 0) / self._count
        return (1.0 - correction / self._size).clamp(min=0.0)

    def spread(self, per_mean: Tensor) -> Tensor:
        """Turn the gradient by a mean into that by every row."""
        return per_mean / self._count if self._weight is None else per_mean * self._share


def _is_constant(variance: Tensor, mean: Tensor, eps: float) -> Tensor:
    """Return True for columns whose predictions or labels have no correlation; NaN is not constant and stays visible."""
    noise = TWICE_CENTRED * torch.finfo(variance.dtype).eps
    return (torch.addcmul(variance, mean, mean, value=-noise * noise) <= eps * eps).any(0)


def _aggregate(components: Tensor, share: Tensor | None, alpha: float | Tensor, settings: "GARSettings") -> tuple[Tensor, Tensor]:
    """Return the loss ``(...)`` of components ``(M, ..., columns)``, and its slope by each of these."""
    columns = components.shape[-1]
    if share is not None:
        part: Tensor | float = share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)
        means = (components * part).sum(-1)
    else:
        part = 1.0 / columns
        means = components.squeeze(-1) if columns == 1 else components.mean(-1)
    means = means + settings.eps
    logs = means.log()
    largest = logs.amax(0)
    if isinstance(alpha, Tensor):
        alpha = alpha.clamp(_LEAST_ALPHA, _LARGEST_ALPHA)
    else:
        alpha = min(max(alpha, _LEAST_ALPHA), _LARGEST_ALPHA)
    below = (logs - largest) / alpha
    rest = below.expm1().mean(0).log1p()
    value = torch.addcmul(largest, alpha, rest) if isinstance(alpha, Tensor) else torch.add(largest, rest, alpha=alpha)
    slopes = below.softmax(0) / means
    if settings.form == "exp":
        value = value.exp()
        slopes = slopes * value
    slopes = slopes.unsqueeze(-1)
    return value, slopes if columns == 1 and share is None else slopes * part
