"""Sums over the groups of a batch on the CPU, block by block: what is made of a block stays in the cache, nothing else is made.

A pass over the rows costs about as much as a scatter of them, so there are few. All blocks are in the same memory, since new memory
takes longer than arithmetic. Letters are those of :mod:`gar.functional.moments`.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from gar.functional.formulas import Moments, is_spread
from gar.groups import Groups
from gar.validation import Columns, on_accelerator

BLOCK, STACK_BLOCK = 131072, 8192
"""Rows of a block, of one column and of several: with the numbers of their groups they fit into the cache of a core. The number of
columns does not matter, so that the sums of a model do not depend on its neighbours."""

FAR = 128.0
"""The most that squares of means may be of squares around them: above it, their difference has less than five digits left."""

_CERTAIN = 1e4
"""The same of the labels of a group, of which is asked only whether they differ."""

_SAMPLE = 4096
"""Rows that show how far means are from 0, and whether rows of a group come together."""


class RowBlock(NamedTuple):
    """Some rows, with their errors and predictions, and memory to work in; ``pred`` is read only, and may be in ``other``."""

    rows: slice
    error: Tensor
    pred: Tensor
    weight: Tensor | None
    groups: Groups
    buffer: Tensor
    other: Tensor
    starts: np.ndarray | None
    """Where runs of rows of one group begin, if rows of a group come together."""
    codes: Tensor
    """The group of every run, or of every row."""

    def weighted(self, values: Tensor) -> Tensor:
        return values if self.weight is None else values * self.weight

    def scatter(self, table: Tensor, values: Tensor) -> None:
        """Add the values of every row to those of its group.

        Runs are summed first: a scatter to the same group again and again waits for itself, and takes four times as long.
        """
        if self.starts is not None:
            values = torch.from_numpy(np.add.reduceat(values.numpy(), self.starts))
        table.scatter_add_(-1, self.codes if self.codes.shape == values.shape else self.codes.expand(values.shape), values)


class Squares(Protocol):
    """What is summed in the same pass as the means of groups, to be made squares around them."""

    def add(self, block: RowBlock, size: Tensor) -> None:
        """Add the rows of a block, whose errors and memory may be overwritten, given the sizes of groups up to these rows."""


class ColumnSquares:
    """``D``, ``F``, ``V`` and ``Q`` of a column, summed over its groups, in one pass: all squares minus those of the means.

    Of each group it must be known only that its labels differ: they are looked at until those of all groups do.
    """

    @staticmethod
    def suit(columns: Columns) -> bool:
        """Return True where one pass may do. A model must not take another path because of its neighbours."""
        return columns.groups is not None and columns.pred.ndim == 1 and not on_accelerator(columns.pred)

    def __init__(self, columns: Columns) -> None:
        assert columns.groups is not None
        self._totals, self._labels = columns.pred.new_zeros(3), columns.pred.new_zeros(2, columns.groups.total)
        self._rows_count_alike = columns.weight is None
        self._least: Tensor | None = None

    def add(self, block: RowBlock, size: Tensor) -> None:
        """Add the rows of a block."""
        error, pred = block.error, block.pred
        of_error, of_pred = block.weighted(error), block.weighted(pred)
        for total, one, other in zip(self._totals, (of_error, of_pred, of_pred), (error, pred, error), strict=True):
            total += torch.dot(one, other)
        if self._least is not None:
            return
        target = torch.sub(pred, error, out=block.buffer)
        block.scatter(self._labels[0], block.weighted(target))
        block.scatter(self._labels[1], block.weighted(target.square_()))
        if len(size) * 8 <= len(error):  # else a look at the groups takes as long as the rows
            least = self._least_squares(size)
            self._least = least if bool((least > 0).all()) else None

    def _least_squares(self, size: Tensor) -> Tensor:
        """Return the sum of squares of the labels of every group around their mean, 0 where that may be mere rounding."""
        of_means = self._labels[0].square() / size.clamp(min=torch.finfo(size.dtype).tiny)
        target = self._labels[1] - of_means
        return target.where(of_means <= _CERTAIN * target, 0.0)

    def around_means(self, rows: "GroupBlocks", eps: float, unit: float) -> tuple[Tensor, ...] | None:
        """Return the rows that count, ``D``, ``F``, ``V`` and ``Q``; None if digits would be lost."""
        size, mean_error, mean_pred = rows.size, rows.mean_error, rows.mean_pred
        of_error, of_pred = size * mean_error, size * mean_pred
        means = torch.stack([of_error.dot(mean_error), of_pred.dot(mean_pred), of_pred.dot(mean_error)])
        error, pred, cross = self._totals - means
        target = pred - 2.0 * cross + error
        least = self._least_squares(size) if self._least is None else self._least
        counts = is_spread(least / rows.divisor, rows.with_squares().mean_target, eps, unit)
        known = counts | (size == 0)
        if self._rows_count_alike:
            known |= size == 1  # its squares are 0, so that it does not matter that it does not count
        squares = _certain(self._totals[0], self._totals[1], error, pred, target)
        return (size.dot(counts.to(size)), error, pred, target, cross) if bool(known.all() & squares) else None


def _certain(error_sum: Tensor, pred_sum: Tensor, error: Tensor, pred: Tensor, target: Tensor) -> Tensor:
    """Return True where ``D``, ``F`` and ``V``, as differences of sums, have kept their digits."""
    return (error_sum <= FAR * error) & (pred_sum <= FAR * pred) & (error_sum + pred_sum <= FAR * target)


class GroupSquares:
    """``D``, ``F``, ``V`` and ``Q`` of every group in one pass: all squares minus those of the means."""

    FEWEST_ROWS = 8
    """In smaller groups, some mean is large against what is around it by chance, and digits are lost."""

    @staticmethod
    def suit(columns: Columns) -> bool:
        """Return True where one pass may do."""
        groups = columns.groups
        return ColumnSquares.suit(columns) and groups is not None and len(columns.pred) >= GroupSquares.FEWEST_ROWS * groups.total

    def __init__(self, columns: Columns) -> None:
        assert columns.groups is not None
        self._sums = columns.pred.new_zeros(3, columns.groups.total)

    def add(self, block: RowBlock, _: Tensor) -> None:
        """Add the rows of a block."""
        of_pairs = (block.pred, block.error), (block.pred, block.pred), (block.error, block.error)
        for table, (one, other) in zip(self._sums, of_pairs, strict=True):
            block.scatter(table, block.weighted(torch.mul(one, other, out=block.buffer)))

    def around_means(self, rows: "GroupBlocks") -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
        """Return ``D``, ``F``, ``V`` and ``Q`` of every group; None if digits would be lost."""
        size, mean_error, mean_pred = rows.size, rows.mean_error, rows.mean_pred
        pairs = (mean_pred, mean_error), (mean_pred, mean_pred), (mean_error, mean_error)
        cross, pred, error = (total - size * one * other for total, (one, other) in zip(self._sums, pairs, strict=True))
        target = pred - 2.0 * cross + error
        certain = _certain(self._sums[2], self._sums[1], error, pred, target) | (size == 0)
        return (error, pred, target, cross) if bool(certain.all()) else None


class GroupBlocks:
    """The groups of a batch: sizes, absolute errors, and means of errors and predictions.

    Two passes, one for means and one for the squares around them, unless ``squares`` are taken in the first and keep their digits.
    """

    def __init__(self, columns: Columns, squares: Squares | None = None) -> None:
        assert columns.groups is not None
        self._pred, self._target, self._weight = columns.pred.detach(), columns.target.detach(), columns.weight
        self._groups, self._squares = columns.groups, squares
        self._shifts = self._means_far_off(columns)
        shape = *self._pred.shape[:-1], max(min(BLOCK if self._pred.ndim == 1 else STACK_BLOCK, self._pred.shape[-1]), 1)
        self._memory = self._pred.new_empty(3, *shape)
        self._has_runs = self._pred.ndim == 1 and len(self._pred) >= _SAMPLE > 4 * len(_starts(self._groups.codes[:_SAMPLE]))
        self._sum()

    def _means_far_off(self, columns: Columns) -> tuple[Tensor, Tensor] | None:
        """Return the means of errors and predictions if large offsets would cancel in sums: they are taken off first.

        A single column shows by some of its rows whether they are large.
        """
        n = self._pred.shape[-1]
        if self._pred.ndim == 1 and columns.weight is None and n >= _SAMPLE:
            some = torch.stack([values[:: n // 512] for values in (self._pred, self._target)])
            if bool((some.mean(-1).square() <= 4.0 * some.var(-1)).all()):
                return None
        pred, target = (columns.mean(values).unsqueeze(-1) for values in (self._pred, self._target))
        return pred - target, pred

    def _sum(self) -> None:
        tables, ones = self._pred.new_zeros(3, *self._pred.shape[:-1], self._groups.total), torch.ones_like(self._memory[0])
        self.absolute, self.size = self._pred.new_zeros(self._pred.shape[:-1]), tables[0]
        for block in self._blocks():
            self.absolute += block.weighted(torch.abs(block.error, out=block.buffer)).sum(-1)
            block = self._shifted(block)
            weight = ones[..., : block.pred.shape[-1]] if block.weight is None else block.weight
            for table, values in zip(tables, (weight, block.weighted(block.error), block.weighted(block.pred)), strict=True):
                block.scatter(table, values)
            if self._squares is not None:
                self._squares.add(block, self.size)
        self.divisor = self.size + (self.size == 0)
        self.mean_error, self.mean_pred = tables[1] / self.divisor, tables[2] / self.divisor

    def moments(self) -> Moments:
        """Return the moments of every group; absolute errors are of the column."""
        squares = self._squares.around_means(self) if isinstance(self._squares, GroupSquares) else None
        return self.with_squares(*(squares or self._centred_squares()))

    def with_squares(self, *squares: Tensor) -> Moments:
        """Return the moments of every group, with ``D``, ``F``, ``V`` and ``Q`` as given, or zero."""
        error, pred = self.mean_error, self.mean_pred
        if self._shifts is not None:
            error, pred = self._shifts[0] + error, self._shifts[1] + pred
        return Moments(self.size, pred, pred - error, error, self.absolute, *(squares or [torch.zeros_like(pred)] * 4))

    def _centred_squares(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ``D``, ``F``, ``V`` and ``Q`` of every group, from another pass over values minus the mean of their group.

        Means of many rows are rounded: what is left over of them is taken out as well.
        """
        rests, tables = self._pred.new_zeros(2, *self.size.shape), self._pred.new_zeros(4, *self.size.shape)
        for block in map(self._shifted, self._blocks()):
            error = block.error.sub_(block.groups.of_rows(self.mean_error))
            pred = torch.sub(block.pred, block.groups.of_rows(self.mean_pred), out=block.other)
            for table, values in zip(rests, (error, pred), strict=True):
                block.scatter(table, block.weighted(values))
            block.scatter(tables[3], block.weighted(torch.mul(pred, error, out=block.buffer)))
            for table, values in zip(tables, (error, pred, torch.sub(pred, error, out=block.buffer)), strict=False):
                block.scatter(table, block.weighted(values.square_()))
        rest_error, rest_pred = rests / self.divisor
        self.mean_error, self.mean_pred = self.mean_error + rest_error, self.mean_pred + rest_pred
        squares = (self._around(*pair) for pair in zip(tables, (rest_error, rest_pred, rest_pred - rest_error), strict=False))
        return *squares, tables[3] - self.size * rest_pred * rest_error

    def _around(self, squares: Tensor, rest: Tensor) -> Tensor:
        """Return sums of squares without what is left over of means; 0 for equal values, whose sums are rounded alike."""
        of_rest = self.size * rest * rest
        found = squares - of_rest
        return found.masked_fill(found <= 2.0 * torch.finfo(found.dtype).eps * self.size * of_rest, 0.0)

    def gradient(self, by_sign: Tensor, by_error: Tensor, by_pred: Tensor, constant: Tensor | None = None) -> Tensor:
        """Return the gradient by predictions, from factors of columns, ``(..., 1)``, or of groups; ``constant`` is of groups."""
        level = -(by_error * self.mean_error + by_pred * self.mean_pred)
        level = level if constant is None else level + constant
        result = torch.empty_like(self._pred)
        for block in self._blocks(to_sum=False):
            part = block.groups.of_rows(level, out=result[..., block.rows])
            part.addcmul_(torch.sign(block.error, out=block.buffer), by_sign)
            block = self._shifted(block)
            for values, factor in ((block.error, by_error), (block.pred, by_pred)):
                of_rows = factor if factor.shape[-1] == 1 else block.groups.of_rows(factor, out=block.buffer)
                part.addcmul_(values, of_rows)
            if block.weight is not None:
                part.mul_(block.weight)
        return result

    def _shifted(self, block: RowBlock) -> RowBlock:
        """Take means that are far off from errors and predictions."""
        if self._shifts is None:
            return block
        error, pred = self._shifts
        return block._replace(error=block.error.sub_(error), pred=torch.sub(block.pred, pred, out=block.other))

    def _blocks(self, *, to_sum: bool = True) -> Iterator[RowBlock]:
        n, length = self._pred.shape[-1], self._memory.shape[-1]
        for start in range(0, n, length):
            rows = slice(start, min(start + length, n))
            error, buffer, other = self._memory[..., : rows.stop - start]
            pred, weight = self._pred[..., rows], None if self._weight is None else self._weight[..., rows]
            torch.sub(pred, self._target[..., rows], out=error)
            groups = Groups(self._groups.codes[..., rows], self._groups.total)
            starts = _starts(groups.codes) if to_sum and self._has_runs else None
            codes = groups.codes if starts is None else groups.codes[torch.from_numpy(starts)]
            yield RowBlock(rows, error, pred, weight, groups, buffer, other, starts, codes)


def _starts(codes: Tensor) -> np.ndarray:
    """Return where runs of equal codes ``(n,)`` begin."""
    numbers = codes.numpy()
    return np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))
