"""Sums over the groups of a batch on the CPU, block by block: what is made of a block stays in the cache, nothing else is made.

Two values that go to the same group are added as one complex number, since a scatter takes more time than the addition. All blocks
are in the same memory, since new memory takes longer than arithmetic. Letters are those of :mod:`gar.functional.moments`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.functional.formulas import Moments
from gar.groups import Groups
from gar.validation import Columns

BLOCK, STACK_BLOCK = 131072, 8192
"""Rows of a block, of one column and of several: with the numbers of their groups they fit into the cache of a core. The number of
columns does not matter, so that the sums of a model do not depend on its neighbours."""


_SAMPLE = 4096
"""Rows that show whether rows of a group come together; in smaller batches it does not matter."""


def block_rows(pred: Tensor) -> int:
    """Return the rows of a block of predictions ``(..., n)``."""
    return BLOCK if pred.ndim == 1 else STACK_BLOCK


class _Block(NamedTuple):
    """Some rows, with their errors, and memory to work in."""

    rows: slice
    error: Tensor
    pred: Tensor
    weight: Tensor | None
    groups: Groups
    buffer: Tensor
    other: Tensor
    pairs: Tensor
    starts: np.ndarray | None
    """Where runs of rows of one group begin, if rows of a group come together."""

    def scatter(self, table: Tensor, real: Tensor, imag: Tensor) -> None:
        """Add two values of every row to those of its group in a complex table.

        Runs are summed first: a scatter to the same group again and again waits for itself, and takes four times as long.
        """
        values, codes = torch.complex(real, imag, out=self.pairs), self.groups.codes
        if self.starts is not None:
            values, codes = torch.from_numpy(np.add.reduceat(values.numpy(), self.starts)), codes[torch.from_numpy(self.starts)]
        table.scatter_add_(-1, codes.expand(values.shape), values)


class GroupBlocks:
    """The groups of a batch: sizes, and means of errors and predictions, both minus the mean of the column."""

    def __init__(self, columns: Columns) -> None:
        assert columns.groups is not None
        self._pred, self._target, self._weight = columns.pred.detach(), columns.target.detach(), columns.weight
        self._groups = columns.groups
        # The mean of the column goes first, so that large offsets do not cancel.
        pred, target = (columns.mean(values).unsqueeze(-1) for values in (self._pred, self._target))
        self._shifts = pred - target, pred
        shape = *pred.shape[:-1], max(min(block_rows(self._pred), self._pred.shape[-1]), 1)
        self._memory = pred.new_empty(3, *shape), pred.new_empty(shape, dtype=pred.dtype.to_complex())
        self._has_runs = self._pred.ndim == 1 and len(self._pred) >= _SAMPLE > 4 * len(_starts(self._groups.codes[:_SAMPLE]))
        self.absolute, self.squares, sums, labels = self._sums()
        self.size, self.label_squares = labels.real, labels.imag
        self.divisor = self.size + (self.size == 0)
        self.mean_error, self.mean_pred = sums.real / self.divisor, sums.imag / self.divisor

    def moments(self, *squares: Tensor) -> Moments:
        """Return the moments of every group, with ``D``, ``F``, ``V`` and ``Q`` as given."""
        error, pred = self._shifts[0] + self.mean_error, self._shifts[1] + self.mean_pred
        return Moments(self.size, pred, pred - error, error, self.absolute, *squares)

    def centred_squares(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return ``D``, ``F``, ``V`` and ``Q`` of every group."""
        one, other = self._tables(2)
        for block in self._blocks():
            of_error, of_pred = block.groups.of_rows(self.mean_error), block.groups.of_rows(self.mean_pred)
            error = block.error.sub_(self._shifts[0]).sub_(of_error)
            pred = torch.sub(block.pred, self._shifts[1], out=block.other).sub_(of_pred)
            target = torch.sub(pred, error, out=block.buffer)
            weighted = _weighted(error, block.weight)
            block.scatter(other, _weighted(target.square_(), block.weight), torch.mul(weighted, pred, out=of_error))
            block.scatter(one, weighted.mul_(error), _weighted(pred.square_(), block.weight))
        return one.real, one.imag, other.real, other.imag

    def gradient(self, by_sign: Tensor, by_error: Tensor, by_pred: Tensor, constant: Tensor | None = None) -> Tensor:
        """Return the gradient by predictions, from factors of columns, ``(..., 1)``, or of groups; ``constant`` is of groups."""
        level = -(by_error * self.mean_error + by_pred * self.mean_pred)
        level = level if constant is None else level + constant
        result = torch.empty_like(self._pred)
        for rows, error, pred, weight, groups, buffer, other, *_ in self._blocks():
            of_error, of_pred = (groups.of_rows(one) if one.shape[-1] > 1 else one for one in (by_error, by_pred))
            part = groups.of_rows(level, out=result[..., rows]).addcmul_(torch.sign(error, out=buffer), by_sign)
            part.addcmul_(error.sub_(self._shifts[0]), of_error)
            part.addcmul_(torch.sub(pred, self._shifts[1], out=other), of_pred)
            if weight is not None:
                part.mul_(weight)
        return result

    def _sums(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return sums of absolute errors; ``D``, ``F`` and ``Q`` around the mean of the column; and two sums of every group.

        These are of errors and predictions, minus the mean of the column, and of ones and squares of such labels.
        """
        absolute, *squares = self._pred.new_zeros(4, *self._pred.shape[:-1])
        sums, labels = self._tables(2)
        one = self._pred.new_ones(())
        for block in self._blocks():
            weight, buffer = block.weight, block.buffer
            absolute += _weighted(torch.abs(block.error, out=buffer), weight).sum(-1)
            error, pred = block.error.sub_(self._shifts[0]), torch.sub(block.pred, self._shifts[1], out=block.other)
            of_error, of_pred = _weighted(error, weight), _weighted(pred, weight)
            block.scatter(sums, of_error, of_pred)
            target = _weighted(torch.sub(pred, error, out=buffer).square_(), weight)
            block.scatter(labels, one.expand(pred.shape) if weight is None else weight, target)
            for total, left, right in zip(squares, (of_error, of_pred, of_error), (error, pred, pred), strict=True):
                total += torch.linalg.vecdot(left, right)
        return absolute, torch.stack(squares), sums, labels

    def _tables(self, count: int) -> Tensor:
        """Return so many tables of one complex number per group, all zero."""
        shape = count, *self._pred.shape[:-1], self._groups.total
        return self._pred.new_zeros(shape, dtype=self._pred.dtype.to_complex())

    def _blocks(self) -> Iterator[_Block]:
        memory, pairs = self._memory
        n, length = self._pred.shape[-1], pairs.shape[-1]
        for start in range(0, n, length):
            rows = slice(start, min(start + length, n))
            error, buffer, other = memory[..., : rows.stop - start]
            pred, weight = self._pred[..., rows], None if self._weight is None else self._weight[..., rows]
            torch.sub(pred, self._target[..., rows], out=error)
            groups = Groups(self._groups.codes[..., rows], self._groups.total)
            starts = _starts(groups.codes) if self._has_runs else None
            yield _Block(rows, error, pred, weight, groups, buffer, other, pairs[..., : rows.stop - start], starts)


def _starts(codes: Tensor) -> np.ndarray:
    """Return where runs of equal codes ``(n,)`` begin."""
    numbers = codes.numpy()
    return np.flatnonzero(np.concatenate([[True], numbers[1:] != numbers[:-1]]))


def _weighted(values: Tensor, weight: Tensor | None) -> Tensor:
    return values if weight is None else values * weight
