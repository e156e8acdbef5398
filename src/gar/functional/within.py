"""GAR of groups in closed form: rows become moments of groups, these the loss and its coefficients, and these the gradient.

With pooled groups a column has one set of moments, summed over its groups. With ``group_reduction="mean"`` every group that
counts is like a column of its own. Letters are those of :mod:`gar.functional.moments`.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gar.functional.blocks import ColumnSquares
from gar.functional.formulas import Moments, solve_moments
from gar.functional.grouped import counting, group_rows, pooled, pooled_moments, shares_of_groups
from gar.functional.moments import few_numbers, rounding_unit
from gar.validation import Columns, can_be_read, check_labels

if TYPE_CHECKING:
    from gar.functional.gar import GARSettings


def value_and_gradient(columns: Columns, alpha: float | Tensor, settings: "GARSettings") -> tuple[Tensor, Tensor]:
    """Return the loss, shape ``(...)``, and its gradient by ``columns.pred``, of the shape of that."""
    unit = rounding_unit(columns.pred)
    batch = (_Pooled if settings.group_reduction == "pooled" else _ByGroup)(columns, settings.eps, unit)
    xp, m, share, alpha = few_numbers(batch.moments, batch.share, alpha)
    if settings.nan_policy == "raise" and isinstance(m.mean_target, np.ndarray) and not np.isfinite(m.mean_target).all():
        check_labels(columns.target)
    with np.errstate(all="ignore"):  # what is not finite shows in the result and needs no warning
        value, factors = solve_moments(m, share, alpha, settings, unit, xp)
    by_sign, by_error, by_pred = (torch.as_tensor(factor).to(batch.share) for factor in factors)
    return torch.as_tensor(value).to(batch.share), batch.gradient(by_sign, by_error, by_pred)


class _Pooled:
    """Columns whose moments are summed over their groups, ``(..., columns)``."""

    def __init__(self, columns: Columns, eps: float, unit: float) -> None:
        one_pass = ColumnSquares(columns) if ColumnSquares.suit(columns) else None
        self._rows, self._counts = group_rows(columns, one_pass), None
        sums = one_pass and one_pass.around_means(self._rows, eps, unit)
        if sums:
            m, size = pooled_moments(self._rows.with_squares(), self._rows.absolute, *sums, unit=unit)
        else:
            groups = self._rows.moments()
            counts = counting(groups, eps, unit)
            all_count = can_be_read(counts) and bool((counts | (groups.size == 0)).all())
            self._counts = None if all_count else counts.to(columns.pred.dtype)
            m, size = pooled(groups, self._rows.absolute, counts.to(columns.pred.dtype), unit=unit)
        self._paired = (m.size / (size + (size == 0))).unsqueeze(-1)
        self.moments, self.share = Moments(*(torch.atleast_1d(field) for field in m)), torch.atleast_1d(size > 0).to(m.error)

    def gradient(self, *factors: Tensor) -> Tensor:
        """Return the gradient by the predictions, from the factors of sign, centred error and centred prediction of columns."""
        by_sign, by_error, by_pred = (factor.reshape(self._paired.shape) for factor in factors)
        if self._counts is not None:
            by_error, by_pred = by_error * self._counts, by_pred * self._counts
        return self._rows.gradient(by_sign * self._paired, by_error, by_pred)


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
