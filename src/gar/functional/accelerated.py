"""GAR's value and gradient on an accelerator: few kernels, and no step that waits for the device.

On a GPU a launch costs about as much as the arithmetic of a batch. So the numbers of a batch stay in a few small tensors that are
worked on together, and nothing is fetched. The formulas are those of :mod:`gar.functional.formulas` in another form:

- what is summed is stacked as ``((f, |e|), (y, e))``, and centred twice, since a mean is a rounded number;
- the first row over the standard deviation of ``f`` gives ``u``, the second over that of ``y`` gives ``v`` and ``w = e / s_y``;
- ``1 - rho = mean((u - v)^2) / 2``: rounding of the standard deviations enters only by its square, so this keeps its digits where
  ``rho`` is near one, without a branch;
- the derivative of ``1 - rho`` by ``f_i`` is ``(w_i - mean(u w) u_i) / (n s_f)``, the part of the centred error that is orthogonal
  to the predictions;
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
        return _solve(*columns[:4], alpha, settings)
    weight, share = (None if values is None else values.unsqueeze(0) for values in columns[2:4])
    value, gradient = _solve(columns.pred.unsqueeze(0), columns.target.unsqueeze(0), weight, share, alpha, settings)
    return value, gradient.squeeze(0)


def _solve(
    pred: Tensor, target: Tensor, weight: Tensor | None, share: Tensor | None, alpha: float | Tensor, settings: "GARSettings"
) -> tuple[Tensor, Tensor]:
    rows = _Rows(pred, weight)
    error = pred - target
    values = torch.stack((pred, error.abs(), target, error)).view(2, 2, *pred.shape)
    means = rows.mean(values)
    variance, centred = rows.variance(values - means)
    constant = _is_constant(variance[:, 0], means[:, 0], settings.eps)
    inverse = variance[:, 0].rsqrt().masked_fill(constant, 0.0)
    (standard_pred, _), (standard_target, scaled_error) = centred * inverse.unsqueeze(1)
    diffnorm = torch.add(constant, rows.mean_square(standard_pred - standard_target), alpha=0.5)  # 1 where there is no correlation
    bessel = rows.bessel(settings.correction)
    found = {"mae": means[0, 1], "diff": variance[1, 1], "diffnorm": diffnorm if bessel is None else bessel * diffnorm}
    chosen = list(zip(settings.components, settings.all_weights, strict=True))
    components = torch.stack([found[name] if factor == 1 else factor * found[name] for name, factor in chosen]).squeeze(-1)
    value, slopes = _aggregate(components, rows.shares(share), alpha, settings)
    parts = zip(chosen, slopes.unsqueeze(-1).unbind(0), strict=True)
    slope = {name: part if factor == 1 else factor * part for (name, factor), part in parts}
    gradient: Tensor | None = None
    if "diffnorm" in slope:
        height = slope["diffnorm"] * inverse[0]
        height = height if bessel is None else height * bessel
        along = rows.mean(standard_pred * scaled_error)
        gradient = torch.addcmul(scaled_error, standard_pred, along, value=-1.0) * height
    if "diff" in slope:
        by_error, centred_error = slope["diff"], centred[1, 1]
        gradient = (
            2.0 * by_error * centred_error if gradient is None else torch.addcmul(gradient, centred_error, by_error, value=2.0)
        )
    if "mae" in slope:
        by_sign, sign = slope["mae"], error.sign()
        gradient = by_sign * sign if gradient is None else torch.addcmul(gradient, sign, by_sign)
    assert gradient is not None
    return rows.zero_if_empty(value), rows.spread(gradient)


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
        weighted = self._share * centred
        centred = centred - weighted.sum(-1, keepdim=True)
        return (weighted * centred).sum(-1, keepdim=True), centred  # centred values are orthogonal to the mean, so once is enough

    def bessel(self, correction: int) -> Tensor | float | None:
        """Return the factor of the normalised difference when standard deviations divide by ``n - correction``; None for 1."""
        if correction == 0:
            return None
        if self._weight is None:
            return max(self._count - correction, 0) / self._count
        return (1.0 - correction / self._size).clamp(min=0.0)

    def shares(self, given: Tensor | None) -> Tensor | None:
        """Return the weight of each column in the mean over columns, which is zero where no row counts; None if all are alike."""
        if given is not None or self._weight is None or self._size.shape[-2] == 1:
            return given
        return self._size.squeeze(-1).sign()

    def zero_if_empty(self, value: Tensor) -> Tensor:
        """Return 0 for models none of whose rows counts: there is nothing to learn."""
        if self._weight is None:
            return value
        size = self._size.squeeze(-1)
        return value * (size.squeeze(-1) if size.shape[-1] == 1 else size.amax(-1)).sign()

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
    part: Tensor | float = 1.0 / columns
    if columns == 1:
        means = components.squeeze(-1)
    elif share is None:
        means = components.mean(-1)
    else:
        part = share / share.sum(-1, keepdim=True).clamp(min=torch.finfo(share.dtype).tiny)
        means = (components * part).sum(-1)
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
    return value, slopes if columns == 1 else slopes * part
