"""The paper's two pairwise losses for every exponent p, without a matrix of pairs."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.errors import InputError
from gar.functional.formulas import TENSORS, TWICE_CENTRED, is_spread, one_minus_pearson, rounding_noise, variance_of_errors
from gar.functional.grouped import GroupMoments, GroupReduction
from gar.functional.moments import rounding_unit
from gar.functional.sorting import Order
from gar.groups import ALL_ROWS, Groups
from gar.validation import Columns, NanPolicy, as_columns, check_choice, check_eps, in_full_precision


@in_full_precision
def difference_loss(
    pred: Tensor,
    target: Tensor,
    *,
    p: int = 2,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
    group_reduction: GroupReduction = "pooled",
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    r"""Return how far pairwise differences of predictions are from those of labels (paper, Eq. diff).

    .. math:: \frac{1}{p N^2} \sum_{ij} |(f_i - f_j) - (y_i - y_j)|^p

    ``p=2`` is the variance of the errors, ``p=1`` their mean absolute difference (Gini). Linear in the batch for even p,
    ``N log N`` for odd p. Shapes, weights, masks and groups are those of :func:`gar.functional.gar_loss`; one row, or nothing but
    equal errors, gives 0. With pooled groups a pair of a group of ``n`` rows has the weight ``1 / (n N)`` instead of ``1 / N^2``,
    where ``N`` is the number of rows of all groups that count.

    Example:
        >>> difference_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]), p=1)
        tensor(0.4444)
    """
    _check_exponent(p)
    check_choice(group_reduction, ("pooled", "mean"), "group_reduction")
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy, groups=groups)
    if p == 2:
        m = GroupMoments(columns, group_reduction, eps=_EPS)
        return m.over_columns(m.mean(lambda m, _: variance_of_errors(m), undefined=0.0))
    pairs = GroupPowers(columns, group_reduction, _EPS)
    loss = pairs.over_groups(pairs.reduced(pairs.pair_power_mean(columns.pred - columns.target, p) / p))
    return columns.over_columns(loss).to(columns.pred.dtype)


@in_full_precision
def normalized_difference_loss(
    pred: Tensor,
    target: Tensor,
    *,
    p: int = 2,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
    group_reduction: GroupReduction = "pooled",
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
    check_choice(group_reduction, ("pooled", "mean"), "group_reduction")
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy, groups=groups)
    if p == 2:
        m = GroupMoments(columns, group_reduction, eps=eps)
        values = m.mean(lambda m, spreads: one_minus_pearson(m, spreads, correction=correction, xp=TENSORS), undefined=1.0)
        return m.over_columns(values)
    pairs = GroupPowers(columns, group_reduction, eps)
    scaled_pred, pred_spreads = pairs.normalised(columns.pred, p, pairs.pair_power_mean)
    scaled_target, target_spreads = pairs.normalised(columns.target, p, pairs.pair_power_mean)
    loss = pairs.reduced(pairs.pair_power_mean(scaled_pred - scaled_target, p) / p)
    loss = pairs.over_groups(torch.where(pred_spreads & target_spreads, loss, 2.0 / p), undefined=2.0 / p)
    return columns.over_columns(loss).to(columns.pred.dtype)


class GroupPowers:
    """Means of powers over the rows and the pairs of every group, ``(..., columns, groups)``, in double precision; without groups a
    column is one."""

    def __init__(self, columns: Columns, reduction: GroupReduction, eps: float) -> None:
        weight = None if columns.weight is None else columns.weight.double()
        self._columns, self._by_group, self._eps = columns, reduction == "mean", eps
        self._unit, self._groups = rounding_unit(columns.pred), columns.groups or ALL_ROWS
        self._weight = torch.ones_like(columns.pred, dtype=torch.float64) if weight is None else weight
        self._size = self._groups.sums(self._weight)
        self._counts = torch.ones_like(self._size)
        if columns.groups is not None:
            power = self.power_mean(columns.target.detach(), 2)
            self._counts = is_spread(power, self._mean(columns.target.detach().double()), eps, self._unit).double()

    def _mean(self, values: Tensor) -> Tensor:
        return self._groups.sums(self._weight * values) / (self._size + (self._size == 0))

    def power_mean(self, values: Tensor, p: float) -> Tensor:
        """Return ``mean_i |x_i - m|^p`` of every group, with its mean ``m``."""
        values = values.double()
        return self._mean((values - self._groups.of_rows(self._mean(values))).abs() ** p)

    def pair_power_mean(self, values: Tensor, p: int) -> Tensor:
        """Return ``mean_ij |x_i - x_j|^p`` of every group. Pairs of a row with itself count, as in the paper."""
        values = values.double()
        values = values - self._groups.of_rows(self._mean(values.detach()))  # differences do not notice, powers lose fewer digits
        return self._even(values, p) if p % 2 == 0 else self._odd(values, p)

    def _even(self, values: Tensor, p: int) -> Tensor:
        """Apply the binomial formula: ``sum_k C(p, k) (-1)^k m_(p-k) m_k`` with the power means ``m_k``."""
        power_means = [self._mean(values**k) for k in range(p + 1)]
        terms = [math.comb(p, k) * (-1) ** k * power_means[p - k] * power_means[k] for k in range(p + 1)]
        return torch.stack(terms).sum(0)

    def _odd(self, values: Tensor, p: int) -> Tensor:
        """Like :meth:`_even` per row, with ``sum_j sign(x_i - x_j) x_j^k`` for the power sum, read off prefix sums after a sort.

        Signs are counted by rank, and equal values count as 0, so that ties have no gradient.
        """
        order, groups, same_group, same_value = ascending_in_groups(values.detach(), self._groups)
        values, weight = values.gather(-1, order), self._weight.gather(-1, order)
        total: Tensor | float = 0.0
        for k in range(p + 1):
            prefix = pad((weight * values**k).cumsum(-1), (1, 0))
            below = prefix.gather(-1, same_value.first()) - prefix.gather(-1, same_group.first())
            above = prefix.gather(-1, same_group.last() + 1) - prefix.gather(-1, same_value.last() + 1)
            total = total + math.comb(p, k) * (-1) ** k * groups.sums(weight * values ** (p - k) * (below - above))
        return total / (self._size + (self._size == 0)).square()

    def reduced(self, values: Tensor) -> Tensor:
        """Return the mean over the rows of all groups that count, ``(..., columns, 1)``, if groups are pooled."""
        if self._by_group:
            return values
        rows = self._counts * self._size
        size = rows.sum(-1, keepdim=True)
        return (values * rows).sum(-1, keepdim=True) / (size + (size == 0))

    def over_groups(self, values: Tensor, undefined: float = 0.0) -> Tensor:
        """Return the mean of reduced values over the groups that count: ``(..., columns)``."""
        count = self._counts.sum(-1)
        mean = (values * self._counts).sum(-1) / (count + (count == 0)) if self._by_group else values.squeeze(-1)
        return mean.where(count > 0, undefined)

    def normalised(self, values: Tensor, p: Any, power_mean: Callable[[Tensor, Any], Tensor]) -> tuple[Tensor, Tensor]:
        """Return values over their p-norm, and whether that norm is above rounding."""
        power, mean = self.reduced(power_mean(values, p)), self._mean(values.detach().double())
        level = mean.abs() if self._by_group else self.reduced(mean.square()).sqrt()
        floor = rounding_noise(level, self._unit, slack=TWICE_CENTRED).clamp(min=self._eps)
        spreads = ~(power.detach() <= floor**p)
        norm = torch.where(spreads, power, 1.0) ** (1.0 / p)
        return values.double() / (norm if norm.shape[-1] == 1 else self._groups.of_rows(norm)), spreads


def ascending_in_groups(values: Tensor, groups: Groups) -> tuple[Tensor, Groups, Order, Order]:
    """Return the order of rows by group, then by value, the groups in that order, and runs of one group and of one value."""
    order = values.argsort(-1)
    first = pad(torch.zeros_like(values[..., 1:], dtype=torch.bool), (1, 0), value=True)
    if groups is not ALL_ROWS:
        index = groups.codes.expand(values.shape)
        order = order.gather(-1, index.gather(-1, order).argsort(dim=-1, stable=True))
        index = index.gather(-1, order)
        first, groups = pad(index[..., 1:] != index[..., :-1], (1, 0), value=True), Groups(index, groups.total)
    ranked = values.gather(-1, order)
    differs = pad(ranked[..., 1:] != ranked[..., :-1], (1, 0), value=True)
    return order, groups, Order(order, first, tied=True), Order(order, differs | first, tied=True)


_EPS = 1e-7
"""Labels with a smaller standard deviation are constant."""


def _check_exponent(p: int) -> None:
    if isinstance(p, bool) or not isinstance(p, int) or p < 1:
        raise InputError(f"p={p!r}; expected a whole number >= 1: p=2 for the paper's losses, p=1 for absolute differences")
