"""Moments of groups of rows, and means of formulas over them; without groups, a column is one group.

Rows become the nine sums of :mod:`gar.functional.moments` in linear time, by one scatter for each sum over groups. A loss is a
formula over these few numbers, which autograd differentiates. The way back to the rows is a closed form, since the derivative of
every such loss by a prediction is, with the derivatives ``L_D`` by ``D`` and so on of its group::

    w_i ( L_A sign(e_i) + (2 L_D + L_Q) e_bar_i + (2 L_F + L_Q) f_bar_i + (L_mean(f) + L_mean(e)) / n )

So a loss needs only its formula, and gets groups, weights, masks, several processes and second derivatives with the moments.
"""

from collections.abc import Callable
from typing import Literal, Protocol

import torch
from torch import Tensor

from gar.functional.blocks import GroupBlocks, GroupSquares
from gar.functional.custom_backward import VectorJacobian, with_custom_backward
from gar.functional.formulas import (
    TENSORS,
    TWICE_CENTRED,
    Moments,
    Spreads,
    is_spread,
    rounding_noise,
    spreads_of,
)
from gar.functional.moments import rounding_unit
from gar.groups import ALL_ROWS
from gar.validation import Columns, is_traced, needs_derivative, on_accelerator

GroupReduction = Literal["pooled", "mean"]
Formula = Callable[[Moments, Spreads], Tensor]


class GroupExchange(Protocol):
    """What groups that are spread over several processes need from the others."""

    def merged(self, table: Tensor) -> Tensor:
        """Return the moments of the joined groups of all processes: ``(9, ..., columns, groups)``, as those of this one."""


class GroupMoments:
    """The moments of a batch, by groups if it has some, and means of formulas over them.

    Args:
        columns: the batch; see :class:`~gar.validation.Columns`.
        reduction: ``"pooled"`` takes the mean of its group off every value, and compares all rows then; ``"mean"`` is the mean over
            groups. A group whose labels are constant, such as that of a single row, has no differences and does not count.
        eps: standard deviations below it count as zero.
        exchange: for a batch that is spread over processes.
    """

    def __init__(self, columns: Columns, reduction: GroupReduction, *, eps: float, exchange: GroupExchange | None = None) -> None:
        self._eps, self._unit = eps, rounding_unit(columns.pred)
        self._by_group = reduction == "mean" and columns.groups is not None
        table = _differentiable(columns, alone=exchange is None)
        groups = Moments(*(table if exchange is None else exchange.merged(table)).unbind(0))
        self._total = Moments(*(field.squeeze(-1) for field in groups)) if columns.groups is None else self._pooled(groups)
        self._filled: Tensor = self._total.size.detach() > 0
        self.moments = groups if self._by_group else self._total
        self.spreads = spreads_of(self.moments, eps=eps, unit=self._unit, xp=TENSORS)
        self._share = self._filled if columns.share is None else columns.share

    def mean(self, formula: Formula, *, undefined: float) -> Tensor:
        """Return a formula of the column, or its mean over the groups that count, if any does: ``(..., columns)``."""
        values = formula(self.moments, self.spreads)
        if self._by_group:
            counts = counting(self.moments, self._eps, self._unit).to(values.dtype)
            total = counts.sum(-1)
            values = ((values * counts).sum(-1) / (total + (total == 0))).masked_fill(total == 0, undefined)
        return values

    def of_all_rows(self, formula: Callable[[Moments], Tensor]) -> Tensor:
        """Return a formula of the column whatever its groups: ``(..., columns)``."""
        return formula(self._total)

    def is_empty(self) -> Tensor:
        """Return True for models without a row that counts."""
        return ~self._filled.any(-1)

    def over_columns(self, values: Tensor) -> Tensor:
        """Return the mean over columns that have rows: ``(..., columns)`` to ``(...)``."""
        share = self._share.to(values.dtype)
        count = share.sum(-1)
        return (values * share).sum(-1) / (count + (count == 0))

    def _pooled(self, groups: Moments) -> Moments:
        counts = counting(groups, self._eps, self._unit).to(groups.size.dtype)
        return pooled(groups, groups.absolute.sum(-1), counts, unit=self._unit)


def counting(groups: Moments, eps: float, unit: float) -> Tensor:
    """Return True for groups whose labels differ."""
    size = groups.size + (groups.size == 0)
    return is_spread(groups.target.detach() / size, groups.mean_target.detach(), eps, unit)  # type: ignore[no-any-return]


def pooled(groups: Moments, absolute: Tensor, counts: Tensor, *, unit: float) -> Moments:
    """Return the moments of a column from those of its groups, and 1.0 for each group that counts.

    Their size is that of the groups that count, or 1 if none does: all squares are 0 then. Absolute errors are of all rows.
    """
    table = torch.stack([groups.size.expand(groups.error.shape), *groups[5:]])
    paired, *squares = (counts * table).sum(-1).unbind(0)
    return pooled_moments(groups, absolute, paired, *squares, unit=unit)


def pooled_moments(
    groups: Moments, absolute: Tensor, paired: Tensor, error: Tensor, pred: Tensor, target: Tensor, cross: Tensor, *, unit: float
) -> Moments:
    """Like :func:`pooled`, from sums over the groups that count: their rows, ``D``, ``F``, ``V`` and ``Q``."""
    rows = groups.size.sum(-1)
    divisor, size = rows + (rows == 0), (paired + (paired == 0) * (rows > 0)).expand(error.shape)
    pred_mean, target_mean, error_mean = (groups.size * torch.stack(groups[1:4])).sum(-1) / divisor
    level = ((groups.size * groups.mean_pred.detach().square()).sum(-1) / divisor).sqrt()
    noise = rounding_noise(level, unit, slack=TWICE_CENTRED)
    pred = pred.masked_fill(pred.detach() <= paired * noise * noise, 0.0)  # predictions that are constant in every group
    # A sum of absolute errors is divided by the size among the moments.
    return Moments(size, pred_mean, target_mean, error_mean, absolute / divisor * size, error, pred, target, cross)


def _differentiable(columns: Columns, *, alone: bool) -> Tensor:
    """Return a table of moments: its derivative by predictions is a closed form, if these are all that it is differentiated by.

    Unless this process is ``alone`` there are no second derivatives: they would need the rows of others.
    """

    def plain(pred: Tensor) -> Tensor:
        return _shared(CentredRows(pred, columns).moments())[1]

    if is_traced() or needs_derivative(columns.target, columns.weight):
        return plain(columns.pred)

    def solve(pred: Tensor) -> tuple[Tensor, VectorJacobian]:
        rows = group_rows(columns._replace(pred=pred))
        share, table = _shared(rows.moments())
        return table, lambda outer: rows.gradient(*_row_factors(outer, share, rows.divisor))

    return with_custom_backward(columns.pred, solve, plain if alone else None)


def group_rows(columns: Columns) -> "GroupBlocks | CentredRows":
    """Return the rows of a batch with their groups; on the CPU nothing of their size is made."""
    if columns.groups is None or on_accelerator(columns.pred):
        return CentredRows(columns.pred, columns)
    return GroupBlocks(columns, GroupSquares(columns) if GroupSquares.suit(columns) else None)


def shares_of_groups(size: Tensor) -> Tensor:
    """Return the part of every group in its column, by its size."""
    total = size.sum(-1, keepdim=True)
    return size / (total + (total == 0))


def _shared(groups: Moments) -> tuple[Tensor, Tensor]:
    """Return the part of every group in the sum of absolute errors, and the moments of groups as a table."""
    share = shares_of_groups(groups.size.detach())
    fields = *groups[:4], share * groups.absolute.unsqueeze(-1), *groups[5:]
    return share, torch.stack([field.expand(groups.mean_pred.shape) for field in fields])


def _row_factors(outer: Tensor, share: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the factors of signs, centred errors and centred predictions in the gradient, and a constant, from that by a table."""
    _, by_mean_pred, _, by_mean_error, by_absolute, by_error, by_pred, _, by_cross = outer.unbind(0)
    by_sign = (share * by_absolute).sum(-1, keepdim=True)
    return by_sign, 2.0 * by_error + by_cross, 2.0 * by_pred + by_cross, (by_mean_pred + by_mean_error) / divisor


class CentredRows:
    """Predictions and errors, ``(..., columns, n)``, each minus the mean of its group."""

    def __init__(self, pred: Tensor, columns: Columns) -> None:
        self._columns, self._weight, self._groups = columns, columns.weight, columns.groups or ALL_ROWS
        self.size = self._sizes(pred)
        self.divisor = self.size + (self.size == 0)
        error = pred - columns.target
        self.absolute = columns.total(error.abs())
        self._error, self._mean_error = self._centred(error)
        self._pred, self._mean_pred = self._centred(pred)
        self._sign, self._mean_target = error.detach().sign(), self._mean_pred - self._mean_error

    def _centred(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return values minus the mean of their group, and that mean."""
        shift = self._columns.mean(values.detach()).unsqueeze(-1)  # it goes first, so that large offsets do not cancel
        shifted = values - shift
        mean = self._groups.sums(self._weighted(shifted)) / self.divisor
        return shifted - self._of_rows(mean), shift + mean

    def _sizes(self, pred: Tensor) -> Tensor:
        """Return the number of rows in every group, ``(..., groups)``, counted with their weights."""
        if self._weight is not None:
            return self._groups.sums(self._weight)
        if self._groups is ALL_ROWS:
            return pred.new_full((1,), pred.shape[-1])
        return self._groups.sizes(pred)

    def _of_rows(self, table: Tensor) -> Tensor:
        """Return the values of the groups of rows; one value, of a column, stands for all its rows."""
        return table if table.shape[-1] == 1 else self._groups.of_rows(table)

    def _weighted(self, values: Tensor) -> Tensor:
        return values if self._weight is None else values * self._weight

    def _products(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the sum of products over the rows of every group."""
        return self._groups.sums(self._weighted(one * other))

    def moments(self) -> Moments:
        """Return the moments of every group, ``(..., columns, groups)``; absolute errors are of the column."""
        error, pred, target = self._error, self._pred, self._pred - self._error
        pairs = (error, error), (pred, pred), (target, target), (pred, error)
        squares = [self._products(*pair) for pair in pairs]
        return Moments(self.size, self._mean_pred, self._mean_target, self._mean_error, self.absolute, *squares)

    def gradient(self, by_sign: Tensor, by_error: Tensor, by_pred: Tensor, constant: Tensor | None = None) -> Tensor:
        """Return the gradient by predictions, from factors of columns, ``(..., 1)``, or of groups; ``constant`` is of groups."""
        gradient = (self._sign * by_sign).addcmul_(self._error, self._of_rows(by_error))
        gradient = gradient.addcmul_(self._pred, self._of_rows(by_pred))
        gradient = gradient if constant is None else gradient.add_(self._of_rows(constant))
        return self._weighted(gradient)
