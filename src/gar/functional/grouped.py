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

from gar.functional.blocks import GroupBlocks, block_rows
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
from gar.validation import Columns, can_be_read, is_traced, needs_derivative, on_accelerator

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
        if self._by_group or exchange is not None:
            table = _differentiable(columns, _CentredRows.table, alone=exchange is None)
            table = table if exchange is None else exchange.merged(table)
            groups = Moments(*table.unbind(0))
            table = self._pooled(groups) if columns.groups is not None else torch.cat([table, table[:1]]).squeeze(-1)
        else:
            table = _differentiable(columns, lambda rows: rows.pooled(eps, self._unit))
        self._total, self._filled = Moments(*table.unbind(0)[:9]), table[9].detach() > 0
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

    def _pooled(self, groups: Moments) -> Tensor:
        counts = counting(groups, self._eps, self._unit).to(groups.size.dtype)
        sums = [(counts * one).sum(-1) for one in (groups.size, *groups[5:])]
        return pooled_table(groups, groups.absolute.sum(-1), *sums, unit=self._unit)


def counting(groups: Moments, eps: float, unit: float) -> Tensor:
    """Return True for groups whose labels differ."""
    size = groups.size + (groups.size == 0)
    return is_spread(groups.target.detach() / size, groups.mean_target.detach(), eps, unit)  # type: ignore[no-any-return]


def pooled_table(
    groups: Moments, absolute: Tensor, paired: Tensor, error: Tensor, pred: Tensor, target: Tensor, cross: Tensor, *, unit: float
) -> Tensor:
    """Return the moments of a column from sums over its groups, ``(9, ..., columns)``, and as a tenth field its size.

    The size among the moments is that of the groups that count. Absolute errors are of all rows: their sum is scaled to that size.
    """
    size = groups.size.sum(-1).expand(paired.shape)
    divisor, some = size + (size == 0), paired + (paired == 0)
    means = [(groups.size * mean).sum(-1) / divisor for mean in groups[1:4]]
    level = ((groups.size * groups.mean_pred.detach().square()).sum(-1) / divisor).sqrt()
    noise = rounding_noise(level, unit, slack=TWICE_CENTRED)
    pred = pred.masked_fill(pred.detach() <= paired * noise * noise, 0.0)  # predictions that are constant in every group
    return torch.stack([paired, *means, absolute / divisor * some, error, pred, target, cross, size])


def _differentiable(
    columns: Columns, table_of: "Callable[[_CentredRows], tuple[Tensor, VectorJacobian]]", *, alone: bool = True
) -> Tensor:
    """Return a table of moments: its derivative by predictions is a closed form, if these are all that it is differentiated by.

    Unless this process is ``alone`` there are no second derivatives: they would need the rows of others.
    """

    def plain(pred: Tensor) -> Tensor:
        return table_of(_CentredRows(pred, columns))[0]

    if is_traced() or needs_derivative(columns.target, columns.weight):
        return plain(columns.pred)

    def solve(pred: Tensor) -> tuple[Tensor, VectorJacobian]:
        is_large = columns.groups is not None and pred.shape[-1] > block_rows(pred) and not on_accelerator(pred)
        if is_large and table_of is _CentredRows.table:
            return _table_in_blocks(columns)
        return table_of(_CentredRows(pred, columns))

    return with_custom_backward(columns.pred, solve, plain if alone else None)


def _table_in_blocks(columns: Columns) -> tuple[Tensor, VectorJacobian]:
    """Return what :meth:`_CentredRows.table` does, on the CPU, without making anything of the size of the batch."""
    found = GroupBlocks(columns)
    share, table = _shared(found.moments(*found.centred_squares()))
    return table, lambda outer: found.gradient(*_row_factors(outer, share, found.divisor))


def _shared(groups: Moments) -> tuple[Tensor, Tensor]:
    """Return the part of every group in the sum of absolute errors, by its size, and the moments of groups as a table."""
    size = groups.size.sum(-1, keepdim=True).detach()
    share = groups.size.detach() / (size + (size == 0))
    fields = *groups[:4], share * groups.absolute.unsqueeze(-1), *groups[5:]
    return share, torch.stack([field.expand(groups.mean_pred.shape) for field in fields])


def _row_factors(outer: Tensor, share: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the factors of signs, centred errors and centred predictions in the gradient, and a constant, from that by a table."""
    _, by_mean_pred, _, by_mean_error, by_absolute, *by_squares = outer.unbind(0)
    constant = (by_mean_pred + by_mean_error) / divisor
    return (share * by_absolute).sum(-1, keepdim=True), *_factors(*by_squares), constant


class _CentredRows:
    """Predictions and errors, ``(..., columns, n)``, each minus the mean of its group."""

    def __init__(self, pred: Tensor, columns: Columns) -> None:
        self._columns, self._weight, self._groups = columns, columns.weight, columns.groups or ALL_ROWS
        self._size = self._sizes(pred)
        self._divisor = self._size + (self._size == 0)
        error = pred - columns.target
        self._absolute = columns.total(error.abs())
        self._error, self._mean_error = self._centred(error)
        self._pred, self._mean_pred = self._centred(pred)
        self._sign, self._mean_target = error.detach().sign(), self._mean_pred - self._mean_error

    def _centred(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return values minus the mean of their group, and that mean."""
        shift = self._columns.mean(values.detach()).unsqueeze(-1)  # it goes first, so that large offsets do not cancel
        shifted = values - shift
        mean = self._groups.sums(self._weighted(shifted)) / self._divisor
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

    def _total(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the sum of products over all rows."""
        total: Tensor = torch.linalg.vecdot(self._weighted(one), other)
        return total

    def _products(self, one: Tensor, other: Tensor) -> Tensor:
        """Return the sum of products over the rows of every group."""
        return self._groups.sums(self._weighted(one * other))

    def _target_squares(self) -> Tensor:
        target = self._pred - self._error
        return self._products(target, target)

    def table(self) -> tuple[Tensor, VectorJacobian]:
        """Return the moments of every group, ``(9, ..., columns, groups)``, and the way back.

        Absolute errors are not of groups: each gets a part of their sum by its size.
        """
        error, pred = self._error, self._pred
        sums = self._products(error, error), self._products(pred, pred), self._target_squares(), self._products(pred, error)
        share, table = _shared(Moments(self._size, self._mean_pred, self._mean_target, self._mean_error, self._absolute, *sums))
        return table, lambda outer: self._gradient(*_row_factors(outer, share, self._divisor))

    def pooled(self, eps: float, unit: float) -> tuple[Tensor, VectorJacobian]:
        """Return the table of :func:`pooled_table`, and the way back."""
        squares = self._target_squares()
        groups = Moments(self._size, self._mean_pred, self._mean_target, self._mean_error, *[squares] * 5)
        counts = None if self._groups is ALL_ROWS else self._counts(groups, eps, unit)
        error, pred, paired, target_square = self._error, self._pred, self._size.sum(-1), squares.sum(-1)
        if counts is not None:
            keep = self._of_rows(counts)
            error, pred = keep * error, keep * pred
            paired, target_square = (counts * self._size).sum(-1), (counts * squares).sum(-1)
        sums = self._total(error, error), self._total(pred, pred), target_square, self._total(pred, error)
        table = pooled_table(groups, self._absolute, paired.expand(target_square.shape), *sums, unit=unit)

        def vector_jacobian(outer: Tensor) -> Tensor:
            _, by_mean_pred, _, by_mean_error, by_absolute, by_error, by_pred, *rest, _ = outer.unsqueeze(-1).unbind(0)
            some, size = ((value + (value == 0)).unsqueeze(-1) for value in (table[0], table[9]))
            factors = _factors(by_error, by_pred * (table[6] > 0).unsqueeze(-1), *rest)
            factors = factors if counts is None else (factors[0] * counts, factors[1] * counts)
            return self._gradient(by_absolute * some / size, *factors, (by_mean_pred + by_mean_error) / size)

        return table, vector_jacobian

    def _counts(self, groups: Moments, eps: float, unit: float) -> Tensor | None:
        """Return 1.0 for groups that count, 0.0 for others; None if all that have rows are known to count."""
        counts = counting(groups, eps, unit)
        all_count = can_be_read(counts) and bool((counts | (self._size == 0)).all())
        return None if all_count else counts.to(groups.size.dtype)

    def _gradient(self, by_sign: Tensor, by_error: Tensor, by_pred: Tensor, constant: Tensor) -> Tensor:
        """Return the gradient by the predictions, from factors of columns, ``(..., 1)``, or of groups."""
        gradient = torch.addcmul(self._of_rows(constant), self._error, self._of_rows(by_error))
        gradient = gradient.addcmul_(self._pred, self._of_rows(by_pred)).addcmul_(self._sign, by_sign)
        return self._weighted(gradient)


def _factors(by_error: Tensor, by_pred: Tensor, _: Tensor, by_cross: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of centred errors and of centred predictions, from the derivatives by ``D``, ``F``, ``V`` and ``Q``."""
    return 2.0 * by_error + by_cross, 2.0 * by_pred + by_cross
