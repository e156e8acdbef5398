"""The paper's two pairwise losses for every exponent p, without a matrix of pairs."""

import math

import torch
from torch import Tensor

from gar.errors import InputError
from gar.functional.formulas import TENSORS, TWICE_CENTRED, one_minus_pearson, rounding_noise, spreads_of, variance_of_errors
from gar.functional.moments import moments, rounding_unit
from gar.validation import Columns, NanPolicy, as_columns, check_eps, in_full_precision


@in_full_precision
def difference_loss(
    pred: Tensor,
    target: Tensor,
    *,
    p: int = 2,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    r"""Return how far pairwise differences of predictions are from those of labels (paper, Eq. diff).

    .. math:: \frac{1}{p N^2} \sum_{ij} |(f_i - f_j) - (y_i - y_j)|^p

    ``p=2`` is the variance of the errors, ``p=1`` their mean absolute difference (Gini). Linear in the batch for even p,
    ``N log N`` for odd p. Shapes, weights and masks are those of :func:`gar.functional.gar_loss`; one row, or nothing but equal
    errors, gives 0.

    Example:
        >>> difference_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]), p=1)
        tensor(0.4444)
    """
    _check_exponent(p)
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    if p == 2:
        return columns.over_columns(variance_of_errors(moments(columns)))
    loss = pair_power_mean(columns.pred - columns.target, p, columns) / p
    return columns.over_columns(loss).to(columns.pred.dtype)


@in_full_precision
def normalized_difference_loss(
    pred: Tensor,
    target: Tensor,
    *,
    p: int = 2,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
    correction: int = 0,
    eps: float = 1e-7,
) -> Tensor:
    r"""Return how far normalised differences of predictions are from those of labels: only the shape counts (paper, Eq. diffnorm).

    .. math:: \frac1p \left\| \frac{df}{\|df\|_p} - \frac{dY}{\|dY\|_p} \right\|_p^p, \quad df_{ij} = f_i - f_j

    ``p=2`` is 1 - Pearson's correlation; ``correction=1`` (with ``p=2``) standardises by ``n - 1``, as the authors' code does.
    Where predictions or labels are constant (a norm not above ``eps``), the loss is ``2 / p``, as for unrelated shapes, without
    gradient.

    Example:
        >>> normalized_difference_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.0180)
    """
    _check_exponent(p)
    eps = check_eps(eps)
    if correction not in (0, 1) or (correction and p != 2):
        raise InputError(f"correction={correction!r} with p={p}; expected 0, or 1 with p=2")
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    unit = rounding_unit(columns.pred)
    if p == 2:
        m = moments(columns)
        spreads = spreads_of(m, eps=eps, unit=unit, xp=TENSORS)
        return columns.over_columns(one_minus_pearson(m, spreads, correction=correction, xp=TENSORS))
    scaled_pred, pred_spreads = _normalised(columns.pred, p, columns, eps, unit)
    scaled_target, target_spreads = _normalised(columns.target, p, columns, eps, unit)
    loss = pair_power_mean(scaled_pred - scaled_target, p, columns) / p
    loss = torch.where(pred_spreads & target_spreads, loss, 2.0 / p)
    return columns.over_columns(loss).to(columns.pred.dtype)


def pair_power_mean(values: Tensor, p: int, columns: Columns) -> Tensor:
    """Return ``mean_ij |x_i - x_j|^p`` of every column, in double precision. Pairs of a row with itself count, as in the paper."""
    values = values.double()
    weight = None if columns.weight is None else columns.weight.double()
    columns = Columns(values, values, weight, None)
    values = values - columns.mean(values.detach()).unsqueeze(-1)  # differences do not notice, powers lose fewer digits
    return _even(values, p, columns) if p % 2 == 0 else _odd(values, p, columns)


def _even(values: Tensor, p: int, columns: Columns) -> Tensor:
    """Apply the binomial formula: ``sum_k C(p, k) (-1)^k m_(p-k) m_k`` with the power means ``m_k``."""
    power_means = [columns.mean(values**k) for k in range(p + 1)]
    terms = [math.comb(p, k) * (-1) ** k * power_means[p - k] * power_means[k] for k in range(p + 1)]
    return torch.stack(terms).sum(0)


def _odd(values: Tensor, p: int, columns: Columns) -> Tensor:
    """Like :func:`_even` per row, with ``sum_j sign(x_i - x_j) x_j^k`` for the power sum, read off prefix sums after a sort.

    Signs are counted by rank, and equal values count as 0, so that ties have no gradient.
    """
    order = values.argsort(-1)
    values = values.gather(-1, order)
    weight = torch.ones_like(values) if columns.weight is None else columns.weight.gather(-1, order)
    ranked = values.detach().contiguous()
    below, not_above = (torch.searchsorted(ranked, ranked, right=right) for right in (False, True))
    total: Tensor | float = 0.0
    for k in range(p + 1):
        prefix = torch.nn.functional.pad((weight * values**k).cumsum(-1), (1, 0))
        signed = prefix.gather(-1, below) - (prefix[..., -1:] - prefix.gather(-1, not_above))
        total = total + math.comb(p, k) * (-1) ** k * (weight * values ** (p - k) * signed).sum(-1)
    size = weight.sum(-1)
    return total / (size + (size == 0)).square()


def _normalised(values: Tensor, p: int, columns: Columns, eps: float, unit: float) -> tuple[Tensor, Tensor]:
    """Return values over the p-norm of their pairwise differences, and whether that norm is above rounding."""
    power = pair_power_mean(values, p, columns)
    floor = rounding_noise(columns.mean(values.detach()).double(), unit, slack=TWICE_CENTRED).clamp(min=eps)
    spreads = ~(power.detach() <= floor**p)
    norm = torch.where(spreads, power, 1.0) ** (1.0 / p)
    return values.double() / norm.unsqueeze(-1), spreads


def _check_exponent(p: int) -> None:
    if isinstance(p, bool) or not isinstance(p, int) or p < 1:
        raise InputError(f"p={p!r}; expected a whole number >= 1: p=2 for the paper's losses, p=1 for absolute differences")
