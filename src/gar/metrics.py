"""Metrics of predictions: MAE, RMSE, Pearson, Spearman and R2, for all models of a stack at once.

Predictions and labels have shape ``(batch,)`` or ``(..., batch, targets)``; leading dimensions are independent models, and a
metric keeps them: it is computed for each target and averaged over targets. Labels may have the shape of the predictions or just
``(batch, targets)``, shared by all models. ``mask`` is True where a label counts; a NaN label counts nowhere. ``weight (batch,)``
says how often each row counts: two is as good as having the row twice.

Everything is computed in double precision. A constant prediction, or a constant label, has no correlation and gives 0 for Pearson
and Spearman; a constant label gives R2 1 for perfect and 0 for other predictions. A target without any label is left out of the
mean, and no label at all gives NaN. A NaN prediction gives NaN.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.errors import InputError
from gar.group_metrics import within_groups
from gar.registry import METRICS
from gar.validation import check_mask, check_tensor, check_weight


def mae(pred: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Return the mean absolute error.

    Example:
        >>> mae(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.3333, dtype=torch.float64)
    """
    return _single("mae", pred, target, mask, weight)


def rmse(pred: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Return the root of the mean squared error.

    Example:
        >>> rmse(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(1.1547, dtype=torch.float64)
    """
    return _single("rmse", pred, target, mask, weight)


def pearson(pred: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Return Pearson's correlation.

    Example:
        >>> pearson(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.9820, dtype=torch.float64)
    """
    return _single("pearson", pred, target, mask, weight)


def spearman(pred: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Return Spearman's correlation of ranks; equal values share the mean of their ranks.

    Example:
        >>> spearman(torch.tensor([1.0, 2.0, 4.0, 3.0]), torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor(0.8000, dtype=torch.float64)
    """
    return _single("spearman", pred, target, mask, weight)


def r2(pred: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Return the share of the variance of labels that predictions explain; below 0 where the mean label would do better.

    Example:
        >>> r2(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.5000, dtype=torch.float64)
    """
    return _single("r2", pred, target, mask, weight)


def all_metrics(pred: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Return all of :data:`gar.registry.METRICS`, in that order, along a new last dimension.

    Example:
        >>> all_metrics(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0])).shape
        torch.Size([5])
    """
    return Evaluator(target, mask=mask, weight=weight)(pred)


def along_rows_and_columns(pred: Tensor, target: Tensor, *, mask: Tensor | None = None) -> dict[str, Tensor]:
    """Return the mean correlation of columns (over rows, for each target) and of rows (over targets, for each row) of a matrix.

    Predictions and labels are ``(..., batch, targets)``; a NaN label is left out. A constant column or row has a correlation of 0.

    Example:
        >>> pred, target = torch.tensor([[1.0, 2.0], [2.0, 1.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> {name: float(value) for name, value in along_rows_and_columns(pred, target).items()}
        {'pearson_of_columns': 0.0, 'spearman_of_columns': 0.0, 'pearson_of_rows': 0.0, 'spearman_of_rows': 0.0}
    """
    turned = None if mask is None else mask.mT
    values = {"columns": Evaluator(target, mask=mask)(pred), "rows": Evaluator(target.mT, mask=turned)(pred.mT)}
    pairs = [(along, metric) for along in values for metric in ("pearson", "spearman")]
    return {f"{metric}_of_{along}": values[along][..., METRICS[metric].index] for along, metric in pairs}


def _single(name: str, pred: Tensor, target: Tensor, mask: Tensor | None, weight: Tensor | None) -> Tensor:
    return Evaluator(target, mask=mask, weight=weight)(pred)[..., METRICS[name].index]


class _Column(NamedTuple):
    """One set of labels ``(..., n)`` and what is computed from it before any prediction is seen, in double precision."""

    target: np.ndarray
    centred: np.ndarray
    square: np.ndarray
    ranks: np.ndarray
    rank_square: np.ndarray
    weight: np.ndarray | None
    """The number of times that each of the n rows counts, ``(n,)``; None for once."""


class Evaluator:
    """All metrics against labels that stay the same: centres and ranks of labels are computed once.

    The work is done by numpy, whose sort is many times as fast as torch's; results are on the device of the predictions. With
    ``groups (batch,)`` Pearson and Spearman are means over groups (:func:`gar.group_metrics.within_groups`).

    Example:
        >>> evaluate = Evaluator(torch.tensor([[1.0], [2.0], [3.0]]))
        >>> evaluate(torch.zeros(7, 3, 1)).shape  # seven models, five metrics
        torch.Size([7, 5])
    """

    def __init__(
        self, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None, groups: Tensor | None = None
    ) -> None:
        check_tensor(target, "target")
        if target.ndim == 0:
            raise InputError("target is a single number; expected labels of shape (batch,) or (..., batch, targets)")
        self._shape = target.shape
        labels = _as_columns(target).astype(np.float64)
        keep = ~np.isnan(labels)
        if mask is not None:
            check_mask(mask)
            if mask.shape != target.shape:
                raise InputError(f"mask has shape {tuple(mask.shape)}, target {tuple(target.shape)}; they must be equal")
            keep &= _as_columns(mask)
        counts = None if weight is None else self._counts(weight, labels.shape[-1])
        keep &= True if counts is None else counts > 0
        if np.isinf(labels[keep]).any():
            raise InputError("target holds infinite values; remove them, or mark missing labels by NaN or a mask")
        self._within = None if groups is None else partial(within_groups, target=target, groups=groups, mask=mask, weight=weight)
        self._complete = _column(labels, counts) if keep.all() and labels.shape[-1] > 0 else None
        self._parts = [] if self._complete is not None else _incomplete(labels, keep, counts)

    @staticmethod
    def _counts(weight: Tensor, rows: int) -> np.ndarray | None:
        """Return weights as an array, None if all count once."""
        check_tensor(weight, "weight")
        if weight.shape != (rows,):
            raise InputError(f"weight has shape {tuple(weight.shape)}; expected one value per row: ({rows},)")
        check_weight(weight, "weight")
        counts = _array(weight).astype(np.float64)
        return None if np.all(counts == 1) else counts

    def __call__(self, pred: Tensor) -> Tensor:
        """Return metrics ``(..., 5)`` of predictions ``(..., batch, targets)``, or ``(batch,)`` for labels of that shape."""
        self._check(pred)
        columns = _as_columns(pred)
        with np.errstate(all="ignore"):  # what is not finite shows in the result
            values = self._incomplete_metrics(columns) if self._complete is None else _evaluate(columns, self._complete)
            if pred.ndim > 1:
                values = values.mean(-2) if self._complete is not None else self._mean_of_present(values)
        values = np.asarray(values)
        if self._within is not None:
            found = self._within(pred.cpu())
            for name in ("pearson", "spearman"):
                values[..., METRICS[name].index] = found[name]
        return torch.from_numpy(values).to(pred.device)

    def _check(self, pred: Tensor) -> None:
        check_tensor(pred, "pred")
        shared = len(self._shape) == 2 and pred.shape[-2:] == self._shape
        if pred.shape != self._shape and not shared:
            raise InputError(
                f"pred has shape {tuple(pred.shape)}, target {tuple(self._shape)}; they must be equal, or target (batch, targets) "
                "shared by all models; use pred.reshape or target.reshape to say which dimension is which"
            )

    def _incomplete_metrics(self, columns: np.ndarray) -> np.ndarray:
        """Return metrics ``(..., columns, 5)`` of columns that lack labels, one by one: each has its own rows. 0 without labels."""
        rows = columns.reshape(math.prod(columns.shape[:-1]), columns.shape[-1])
        values = np.zeros((len(rows), len(METRICS)))
        for k, part in enumerate(self._parts):
            if part is not None:
                labelled, column = part
                mine = slice(k, None, len(self._parts))
                values[mine] = _evaluate(rows[mine].take(labelled, 1), column)
        present = np.array([part is not None for part in self._parts])
        if rows.shape[0] == 1 and not present.any():
            values[:] = np.nan
        return values.reshape(*columns.shape[:-1], len(METRICS))

    def _mean_of_present(self, values: np.ndarray) -> np.ndarray:
        """Return the mean over the columns that have labels; 0 / 0 is NaN where none has."""
        present = np.array([part is not None for part in self._parts], dtype=np.float64)
        count = present.reshape(-1, values.shape[-2]).sum(-1)
        total: np.ndarray = values.sum(-2)
        return np.asarray(total / (count if len(count) == 1 else count.reshape(*total.shape[:-1], 1)))


def _as_columns(values: Tensor) -> np.ndarray:
    """Return ``(n,)`` as it is, ``(..., n, targets)`` as ``(..., targets, n)``, in memory of that order."""
    return _array(values if values.ndim == 1 else values.mT)


def _array(values: Tensor) -> np.ndarray:
    """Return values as an array of numpy, which has no bfloat16."""
    values = values.detach().contiguous().cpu()
    array: np.ndarray = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return array


def _incomplete(labels: np.ndarray, keep: np.ndarray, counts: np.ndarray | None) -> list[tuple[np.ndarray, _Column] | None]:
    """Return the rows with a label and these as a column of their own, for every column; None for one without labels."""
    flat = labels.reshape(math.prod(labels.shape[:-1]), labels.shape[-1])
    rows = [np.flatnonzero(row) for row in keep.reshape(flat.shape)]
    weights = [None if counts is None else counts[row] for row in rows]
    known = zip(flat, rows, weights, strict=True)
    return [(row, _column(label[row], weight)) if len(row) else None for label, row, weight in known]


def _column(target: np.ndarray, weight: np.ndarray | None) -> _Column:
    centred = target - _mean(target, weight)[..., None]
    order, sorted_ranks = _sorted_ranks(target, weight)
    ranks = np.empty_like(target)
    np.put_along_axis(ranks, order, np.broadcast_to(sorted_ranks, order.shape), -1)
    rank_square = _dot(ranks, ranks, weight)
    square = np.where(rank_square > 0, _dot(centred, centred, weight), 0.0)
    return _Column(target, centred, square, ranks, rank_square, weight)


def _evaluate(pred: np.ndarray, column: _Column) -> np.ndarray:
    """Return metrics ``(..., 5)`` of predictions ``(..., n)``."""
    weight = column.weight
    order, ranks = _sorted_ranks(pred, weight)
    ordered = None if weight is None else weight[order]
    rank_cross, rank_square = _dot(_picked(column.ranks, order), ranks, ordered), _dot(ranks, ranks, ordered)
    wide = pred.astype(np.float64)
    error = wide - column.target
    squared = _dot(error, error, weight)
    absolute = _mean(np.abs(error, out=error), weight)
    wide -= _mean(wide, weight)[..., None]
    linear = _correlation(_dot(wide, column.centred, weight), _dot(wide, wide, weight), column.square)
    linear = np.where(rank_square == 0, 0.0 * absolute, linear)  # rounding leaves a trace of a spread in constant predictions
    ranked = _correlation(rank_cross, rank_square, column.rank_square) + 0.0 * absolute  # NaN has no rank
    rmse = np.sqrt(squared / (pred.shape[-1] if weight is None else weight.sum()))
    return np.stack([absolute, rmse, linear, ranked, _r2(squared, column.square)], -1)


def _mean(values: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    return np.asarray(values.mean(-1) if weight is None else (values * weight).sum(-1) / weight.sum())


def _dot(one: np.ndarray, other: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the sum of products along the last dimension, for each row by itself.

    A row's result must not depend on how many rows there are. That of einsum does for long rows, which it works on piece by piece.
    """
    one = one if weight is None else one * weight
    if one.shape[-1] > _SHORT:
        return np.asarray((one * other).sum(-1))
    return np.asarray(np.einsum("...n,...n->...", one, other))


_SHORT = 4096


def _correlation(cross: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return ``cross / sqrt(one other)``, 0 where one of the two is constant; rounding cannot push it beyond 1."""
    scale = np.sqrt(one) * np.sqrt(other)
    constant = scale == 0
    return np.asarray(np.minimum(np.maximum(np.where(constant, 0.0, cross) / np.where(constant, 1.0, scale), -1.0), 1.0))


def _r2(squared: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return R2; with constant labels 1 for perfect predictions and 0 for others."""
    constant = total == 0
    return np.asarray(1.0 - np.where(constant, squared > 0, squared) / np.where(constant, 1.0, total))


def _picked(ranks: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return ranks ``(..., n)``, shared by leading dimensions, in the order of each row."""
    if ranks.size == ranks.shape[-1]:
        return np.asarray(ranks.reshape(-1)[order])
    return np.take_along_axis(np.broadcast_to(ranks, order.shape), order, -1)


def _sorted_ranks(values: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the order that sorts the last dimension, and twice the centred mean ranks in that order.

    These are whole numbers, so sums of their products are exact. Without ties they are known beforehand; few values are tied as a
    rule (a table that holds a row twice), so only these are treated.
    """
    order, size = values.argsort(-1), values.shape[-1]
    ranked = np.sort(values, -1).reshape(-1, size)  # quicker than bringing the values into the order found
    if weight is not None:
        return order, _weighted_ranks(ranked, weight[order].reshape(-1, size)).reshape(values.shape)
    ranks = np.arange(1.0 - size, size, 2.0)
    row, at = np.divmod(np.flatnonzero(ranked[:, 1:] == ranked[:, :-1]), max(size - 1, 1))
    if len(row) == 0:
        return order, ranks
    ranks = np.repeat(ranks[None], len(ranked), 0)
    flat = row * size + at  # an entry ties its position with the next one, and neighbouring entries are one group
    starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1] + 1]))
    ends = np.concatenate([starts[1:], [len(flat)]])
    shared = np.repeat(at[starts] + at[ends - 1] + 2.0 - size, ends - starts)
    ranks[row, at] = shared
    ranks[row, at + 1] = shared
    return order, ranks.reshape(values.shape)


def _weighted_ranks(ranked: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return ranks of sorted values whose rows count by weight: twice the weight below, plus that of equal values, minus all."""
    below = np.cumsum(weight, -1) - weight
    upto = below + weight
    tied = ranked[:, 1:] == ranked[:, :-1]
    below[:, 1:][tied] = -np.inf
    upto[:, :-1][tied] = np.inf
    first = np.maximum.accumulate(below, -1)
    last = np.minimum.accumulate(upto[:, ::-1], -1)[:, ::-1]
    return np.asarray(first + last - weight.sum(-1, keepdims=True))
