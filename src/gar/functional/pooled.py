"""GAR of pooled groups on the CPU, in closed form.

Two passes over the rows: sums, and the gradient. Squares around the means of groups are those of all rows minus those of the means;
where means are so large that this would lose digits, a third pass takes them anew. Letters are those of
:mod:`gar.functional.moments`.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gar.functional.blocks import GroupBlocks
from gar.functional.formulas import ARRAYS, Moments, solve_moments
from gar.functional.grouped import counting, pooled_table
from gar.functional.moments import rounding_unit
from gar.validation import Columns, check_labels

if TYPE_CHECKING:
    from gar.functional.gar import GARSettings

_FAR = 128.0
"""The most that squares of means may be of squares around them: above it, their difference has less than five digits left."""

_CERTAIN = 1e4
"""The same of the labels of a group, of which is asked only whether they differ."""


def value_and_gradient(columns: Columns, alpha: float | Tensor, settings: "GARSettings") -> tuple[Tensor, Tensor]:
    """Return the loss, shape ``(...)``, and its gradient by ``columns.pred``, of the shape of that."""
    unit = rounding_unit(columns.pred)
    batch = _PooledBatch(columns, settings.eps, unit)
    numbers = batch.table.double().numpy().reshape(10, *(batch.table.shape[1:] or (1,)))
    if settings.nan_policy == "raise" and not np.isfinite(numbers[2]).all():
        check_labels(columns.target)
    per_model = alpha.double().numpy() if isinstance(alpha, Tensor) else alpha
    with np.errstate(all="ignore"):  # what is not finite shows in the result and needs no warning
        value, factors = solve_moments(Moments(*numbers[:9]), (numbers[9] > 0) * 1.0, per_model, settings, unit, ARRAYS)
    by_sign, by_error, by_pred = (torch.from_numpy(factor).to(batch.table).reshape(batch.table.shape[1:]) for factor in factors)
    return torch.as_tensor(value, dtype=batch.table.dtype), batch.gradient(by_sign, by_error, by_pred)


class _PooledBatch:
    """Sums over the groups of a batch; ``table`` is that of :func:`gar.functional.grouped.pooled_table`."""

    def __init__(self, columns: Columns, eps: float, unit: float) -> None:
        self._blocks = GroupBlocks(columns)
        self._rows_count_alike = columns.weight is None
        self._eps, self._unit = eps, unit
        self._counts: Tensor | None = None
        self._groups = self._blocks.moments(*[self._blocks.label_squares] * 4)
        # A model must not take another path because of its neighbours.
        sums = (self._around_means() if columns.pred.ndim == 1 else None) or self._centred()
        self.table = pooled_table(self._groups, self._blocks.absolute, *sums, unit=unit)

    def _around_means(self) -> tuple[Tensor, ...] | None:
        """Return the rows that count, ``D``, ``F``, ``V`` and ``Q`` by taking off the squares of means; None if digits would go."""
        size, error, pred = self._blocks.size, self._blocks.mean_error, self._blocks.mean_pred
        means = (size * torch.stack([error * error, pred * pred, pred * error])).sum(-1)
        rest = self._blocks.squares - means
        of_means = size * (pred - error).square()
        target = self._blocks.label_squares - of_means
        counts = counting(self._groups._replace(target=target), self._eps, self._unit) & (of_means <= _CERTAIN * target)
        known = counts | (size == 0)
        if self._rows_count_alike:
            known |= size == 1  # its squares are 0, so that it does not matter that it does not count
        of_labels = (counts * target).sum(-1)
        is_near = (means[:2] <= _FAR * rest[:2]).all() and ((counts * of_means).sum(-1) <= _FAR * of_labels).all()
        if not bool(known.all() and is_near):
            return None
        return (counts * size).sum(-1), rest[0], rest[1], of_labels, rest[2]

    def _centred(self) -> tuple[Tensor, ...]:
        """Return what :meth:`_around_means` does, from another pass over values minus the mean of their group."""
        squares = self._blocks.centred_squares()
        counts = counting(self._groups._replace(target=squares[2]), self._eps, self._unit)
        if not bool((counts | (self._blocks.size == 0)).all()):
            self._counts = counts.to(self._blocks.size.dtype)
        return tuple((counts * one).sum(-1) for one in (self._blocks.size, *squares))

    def gradient(self, by_sign: Tensor, by_error: Tensor, by_pred: Tensor) -> Tensor:
        """Return the gradient by the predictions, from the derivatives by sums of absolute errors, and of centred values."""
        size, paired = (values + (values == 0) for values in (self.table[9], self.table[0]))
        by_sign, by_error, by_pred = (values.unsqueeze(-1) for values in (by_sign * paired / size, by_error, by_pred))
        if self._counts is not None:
            by_error, by_pred = by_error * self._counts, by_pred * self._counts
        return self._blocks.gradient(by_sign, by_error, by_pred)
