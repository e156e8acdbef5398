"""Losses that compare one prediction with one label at a time: absolute, squared, Huber and focal errors.

All take the shapes, weights and masks of :func:`gar.functional.gar_loss` and return one value per model: the mean over rows,
then over targets. Nothing to average gives 0.
"""

from typing import Literal

import torch
from torch import Tensor

from gar.validation import Columns, NanPolicy, as_columns, check_choice, in_full_precision, parameter_like

Activation = Literal["sigmoid", "tanh"]


@in_full_precision
def mae_loss(
    pred: Tensor,
    target: Tensor,
    *,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    """Return the mean absolute error.

    Example:
        >>> mae_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.3333)
    """
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    return _mean(_distance(columns), columns)


@in_full_precision
def mse_loss(
    pred: Tensor,
    target: Tensor,
    *,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    """Return the mean squared error.

    Example:
        >>> mse_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 2.0]))
        tensor(1.3333)
    """
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    return _mean((columns.pred - columns.target).square(), columns)


@in_full_precision
def huber_loss(
    pred: Tensor,
    target: Tensor,
    *,
    delta: float | Tensor = 1.0,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    """Return half the squared error up to ``delta``, beyond it a line of slope ``delta``, as :class:`torch.nn.HuberLoss`.

    Example:
        >>> huber_loss(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([1.0, 1.0, 2.0]), delta=1.0)
        tensor(1.)
    """
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    limit = _parameter(delta, columns, "delta")
    distance = _distance(columns)
    near = distance.minimum(torch.as_tensor(limit, dtype=distance.dtype, device=distance.device))
    return _mean(near * (distance - 0.5 * near), columns)


@in_full_precision
def focal_mae_loss(
    pred: Tensor,
    target: Tensor,
    *,
    beta: float | Tensor = 1.0,
    gamma: float = 1.0,
    activation: Activation = "sigmoid",
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    r"""Return absolute errors, large ones weighted up: :math:`\mathrm{mean}(|d| w^\gamma)`, :math:`w = 2\sigma(\beta|d|) - 1`.

    With ``activation="tanh"`` the weight is :math:`\tanh(\beta |d|)`. The weight is differentiated too.

    Example:
        >>> focal_mae_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]), beta=1.0)
        tensor(0.1540)
    """
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    distance = _distance(columns)
    return _mean(distance * _focus(distance, columns, beta, gamma, activation), columns)


@in_full_precision
def focal_mse_loss(
    pred: Tensor,
    target: Tensor,
    *,
    beta: float | Tensor = 1.0,
    gamma: float = 1.0,
    activation: Activation = "sigmoid",
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    r"""Return squared errors, large ones weighted up: :math:`\mathrm{mean}(d^2 w^\gamma)`; see :func:`focal_mae_loss`.

    Example:
        >>> focal_mse_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]), beta=1.0)
        tensor(0.1540)
    """
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    distance = _distance(columns)
    return _mean(distance.square() * _focus(distance, columns, beta, gamma, activation), columns)


def _parameter(value: float | Tensor, columns: Columns, name: str) -> float | Tensor:
    """Check a positive parameter, and shape it to meet ``(..., columns, n)`` if it has one value per model."""
    value = parameter_like(value, columns.pred.shape[:-2], columns.pred, name)
    return value.reshape(value.shape + (1,) * (columns.pred.ndim - value.ndim)) if isinstance(value, Tensor) else value


def _distance(columns: Columns) -> Tensor:
    return (columns.pred - columns.target).abs()


def _mean(values: Tensor, columns: Columns) -> Tensor:
    return columns.over_columns(columns.mean(values))


def _focus(distance: Tensor, columns: Columns, beta: float | Tensor, gamma: float, activation: Activation) -> Tensor:
    check_choice(activation, ("sigmoid", "tanh"), "activation")
    power = _parameter(gamma, columns, "gamma")
    scaled = _parameter(beta, columns, "beta") * distance
    weight = scaled.tanh() if activation == "tanh" else (0.5 * scaled).tanh()  # 2 sigmoid(x) - 1 = tanh(x / 2), without rounding
    if isinstance(power, (float, int)) and power == 1:
        return weight
    return weight.clamp(min=torch.finfo(weight.dtype).tiny) ** power  # the slope of 0 ** gamma is infinite for gamma < 1
