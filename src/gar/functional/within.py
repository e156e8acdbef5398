"""GAR of groups in closed form: rows become moments of groups, these the loss and its coefficients, and these the gradient.

With pooled groups a column has one set of moments, summed over its groups. With ``group_reduction="mean"`` every group that
counts is like a column of its own. Letters are those of :mod:`gar.functional.moments`.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gar.functional.blocks import ColumnSquares, GroupBlocks
from gar.functional.formulas import Moments, Number, solve_moments
from gar.functional.grouped import CentredRows, counting, group_rows, pooled, pooled_moments, shares_of_groups
from gar.functional.moments import as_table, few_numbers, rounding_unit
from gar.functional.single import solve_floats
from gar.validation import Columns, can_be_read, check_labels

if TYPE_CHECKING:
    from gar.functional.gar import GARSettings


def value_and_gradient(columns: Columns, alpha: float | Tensor, settings: "GARSettings") -> tuple[Tensor, Tensor]:
    """Return the loss, shape ``(...)``, and its gradient by ``columns.pred``, of the shape of that."""
    unit = rounding_unit(columns.pred)
    batch = (_Pooled if settings.group_reduction == "pooled" else _ByGroup)(columns, settings.eps, unit)
    if can_be_read(columns.target) and settings.nan_policy == "raise" and not bool(batch.moments.mean_target.isfinite().all()):
        check_labels(columns.target)
    value: Number
    factors: tuple[Number, Number, Number]
    if batch.moments.error.ndim == 0 and can_be_read(columns.pred):
        value, factors = solve_floats(Moments(*as_table(batch.moments).tolist()), float(alpha), settings, unit)
    else:
        xp, m, share, alpha = few_numbers(Moments(*map(torch.atleast_1d, batch.moments)), batch.share, alpha)
        with np.errstate(all="ignore"):  # what is not finite shows in the result and needs no warning
            value, factors = solve_moments(m, share, alpha, settings, unit, xp)
    like = batch.moments.error
    result, *by_squares = (torch.as_tensor(number, dtype=like.dtype, device=like.device) for number in (value, *factors))
    return result, batch.gradient(*by_squares)


class _Pooled:
    """Columns whose moments are summed over their groups, ``(..., columns)``."""

    share = None

    def __init__(self, columns: Columns, eps: float, unit: float) -> None:
        self._rows, found = _in_one_pass(columns, eps, unit) if ColumnSquares.suit(columns) else (group_rows(columns), None)
        self._counts: Tensor | None = None
        if found is None:
            groups, like = self._rows.moments(), columns.pred
            counts = counting(groups, eps, unit)
            all_count = can_be_read(counts) and bool((counts | (groups.size == 0)).all())
            self._counts = None if all_count else counts.to(like.dtype)
            found = pooled(groups, self._rows.absolute, counts.to(like.dtype), unit=unit)
        self.moments = found

    def gradient(self, by_sign: Tensor, *by_squares: Tensor) -> Tensor:
        """Return the gradient by the predictions, from the factors of sign, centred error and centred prediction of columns."""
        rows, paired = self._rows.size.sum(-1), self.moments.size
        by_sign = by_sign.reshape(paired.shape) * (paired / (rows + (rows == 0)))  # absolute errors are those of all rows
        by_error, by_pred = (factor.reshape(*paired.shape, 1) for factor in by_squares)
        if self._counts is not None:
            by_error, by_pred = by_error * self._counts, by_pred * self._counts
        return self._rows.gradient(by_sign.unsqueeze(-1), by_error, by_pred)


def _in_one_pass(columns: Columns, eps: float, unit: float) -> tuple[GroupBlocks | CentredRows, Moments | None]:
    """Return the rows of a single column, and its moments if they have kept their digits."""
    squares = ColumnSquares(columns)
    rows = GroupBlocks(columns, squares)
    sums = squares.around_means(rows, eps, unit)
    return rows, None if sums is None else pooled_moments(rows.with_squares(), rows.absolute, *sums, unit=unit)


class _ByGroup:
    """Groups as columns of their own, ``(..., columns * groups)``, each with its part in the mean over groups."""

    def __init__(self, columns: Columns, eps: float, unit: float) -> None:
        self._rows = group_rows(columns)
        groups = self._rows.moments()
        counts = counting(groups, eps, unit)
        # Where no group of a column counts, all of them stand for its absolute error; they have no differences.
        parts = torch.where(counts.any(-1, keepdim=True), counts.to(groups.error), groups.size)
        total = parts.sum(-1, keepdim=True)
        self._counts, self._level = counts, shares_of_groups(groups.size)
        m = groups._replace(error=groups.error.where(counts, 0.0), absolute=self._level * groups.absolute.unsqueeze(-1))
        self.moments = Moments(*(self._flat(field.expand(counts.shape)) for field in m))
        self.share = self._flat((parts / (total + (total == 0))).expand(counts.shape))

    @staticmethod
    def _flat(values: Tensor) -> Tensor:
        return values if values.ndim == 1 else values.flatten(-2)

    def gradient(self, *factors: Tensor) -> Tensor:
        """Return the gradient by the predictions, from the factors of sign, centred error and centred prediction of groups."""
        by_sign, by_error, by_pred = (factor.reshape(self._counts.shape) for factor in factors)
        by_sign = (by_sign * self._level).sum(-1, keepdim=True)
        return self._rows.gradient(by_sign, by_error * self._counts, by_pred)
