"""GAR of pooled groups on the CPU, block by block: what is made of a block of rows stays in the cache, and nothing else is made.

Three passes over the rows: sums of predictions and errors of every group, their squares around the mean of their group, and the
gradient. Letters are those of :mod:`gar.functional.moments`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gar.functional.formulas import ARRAYS, Moments, solve_moments
from gar.functional.grouped import counting, pooled_table
from gar.functional.moments import rounding_unit
from gar.groups import Groups
from gar.validation import Columns, check_labels

if TYPE_CHECKING:
    from gar.functional.gar import GARSettings

_BLOCK = 65536
"""Values of a block: with the numbers of their groups they fit into the cache of a core."""


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
        assert columns.groups is not None
        self._pred, self._target, self._weight = columns.pred.detach(), columns.target.detach(), columns.weight
        self._groups = columns.groups
        # The mean of the column goes first, so that large offsets do not cancel.
        pred, target = (columns.mean(values).unsqueeze(-1) for values in (self._pred, self._target))
        self._shifts = pred - target, pred
        self._size = self._groups.sizes(pred) if self._weight is None else self._groups.sums(self._weight)
        absolute, means = self._means()
        self._mean_error, self._mean_pred = means
        error, pred = (shift + mean for shift, mean in zip(self._shifts, means, strict=True))
        error_square, pred_square, squares, cross = self._squares(None)
        groups = Moments(self._size, pred, pred - error, error, absolute, error, pred, squares, pred)
        counts = counting(groups, eps, unit)
        self._counts = None if bool((counts | (self._size == 0)).all()) else counts.to(pred.dtype)
        paired = self._size.expand(pred.shape).sum(-1)
        if self._counts is not None:
            error_square, pred_square, squares, cross = self._squares(self._counts)
            paired = (self._counts * self._size).sum(-1)
        self.table = pooled_table(groups, absolute, paired, error_square, pred_square, squares.sum(-1), cross, unit=unit)

    def _blocks(self) -> Iterator[tuple[slice, Tensor, Tensor, Tensor | None, Groups]]:
        """Yield the rows of each block, their errors and predictions, both minus the mean of the column, weights and groups."""
        columns, n = max(self._pred.shape[:-1].numel(), 1), self._pred.shape[-1]
        length = max(_BLOCK // columns, 1)
        for start in range(0, n, length):
            rows = slice(start, min(start + length, n))
            pred = self._pred[..., rows]
            weight = None if self._weight is None else self._weight[..., rows]
            yield rows, pred - self._target[..., rows], pred, weight, Groups(self._groups.codes[..., rows], self._groups.total)

    def _means(self) -> tuple[Tensor, list[Tensor]]:
        """Return the sum of absolute errors, and the means of errors and predictions of every group, minus those of the column."""
        absolute = self._pred.new_zeros(self._pred.shape[:-1])
        sums = [self._pred.new_zeros(*self._pred.shape[:-1], self._groups.total) for _ in range(2)]
        for _, error, pred, weight, groups in self._blocks():
            absolute += _weighted(error.abs(), weight).sum(-1)
            index = groups.codes.expand(pred.shape)
            for total, values, shift in zip(sums, (error, pred), self._shifts, strict=True):
                total.scatter_add_(-1, index, _weighted(values - shift, weight))
        return absolute, [total / (self._size + (self._size == 0)) for total in sums]

    def _squares(self, counts: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ``D``, ``F``, ``V`` of every group, and ``Q``; if ``counts`` are given, of the groups that count."""
        error_square, pred_square, cross = self._pred.new_zeros(3, *self._pred.shape[:-1])
        target_square = self._pred.new_zeros(*self._pred.shape[:-1], self._groups.total)
        for _, error, pred, weight, groups in self._blocks():
            error = error.sub_(self._shifts[0]).sub_(groups.of_rows(self._mean_error))
            pred = (pred - self._shifts[1]).sub_(groups.of_rows(self._mean_pred))
            weight = weight if counts is None else _weighted(groups.of_rows(counts), weight)
            target = pred - error
            target_square.scatter_add_(-1, groups.codes.expand(pred.shape), _weighted(target.square_(), weight))
            weighted = _weighted(error, weight)
            error_square += torch.linalg.vecdot(weighted, error)
            cross += torch.linalg.vecdot(weighted, pred)
            pred_square += torch.linalg.vecdot(_weighted(pred, weight), pred)
        return error_square, pred_square, target_square, cross

    def gradient(self, by_sign: Tensor, by_error: Tensor, by_pred: Tensor) -> Tensor:
        """Return the gradient by the predictions, from the derivatives by sums of absolute errors, and of centred values."""
        size, paired = (values + (values == 0) for values in (self.table[9], self.table[0]))
        by_sign, by_error, by_pred = (values.unsqueeze(-1) for values in (by_sign * paired / size, by_error, by_pred))
        if self._counts is not None:
            by_error, by_pred = by_error * self._counts, by_pred * self._counts
        level = by_error * self._mean_error + by_pred * self._mean_pred
        result = torch.empty_like(self._pred)
        for rows, error, pred, weight, groups in self._blocks():
            of_error, of_pred = (groups.of_rows(one) if one.shape[-1] > 1 else one for one in (by_error, by_pred))
            part = torch.mul(error.sign(), by_sign, out=result[..., rows])
            part.addcmul_(error.sub_(self._shifts[0]), of_error).addcmul_(pred - self._shifts[1], of_pred)
            part.sub_(groups.of_rows(level))
            if weight is not None:
                part.mul_(weight)
        return result


def _weighted(values: Tensor, weight: Tensor | None) -> Tensor:
    return values if weight is None else values * weight
