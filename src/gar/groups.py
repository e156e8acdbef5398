"""Groups of rows: which rows are compared with each other, and sums over each group in linear time."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


class Groups(NamedTuple):
    """The group of every row. Sums over groups are one scatter, whatever the number of groups and the order of rows."""

    codes: Tensor
    """Whole numbers from 0: ``(n,)`` for all models, or ``(..., 1, n)``."""
    total: int
    """The number of groups, or a larger one, where a look at the values would wait for the device: a group may have no rows."""

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum over the rows of every group: ``(..., n)`` to ``(..., groups)``."""
        index = self.codes.expand(values.shape)
        return values.new_zeros(*values.shape[:-1], self.total).scatter_add(-1, index, values)

    def sizes(self, like: Tensor) -> Tensor:
        """Return the number of rows of every group, in the dtype of ``like``."""
        return self.sums(like.new_ones(()).expand(self.codes.shape))

    def of_rows(self, table: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return, for every row, the value of its group: ``(..., groups)`` to ``(..., n)``."""
        if self.codes.ndim == 1:
            return torch.index_select(table, -1, self.codes, out=out)
        return torch.gather(table, -1, self.codes.expand(*table.shape[:-1], -1), out=out)


class AllRows(Groups):
    """All rows of a column as one group, without a scatter."""

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum over all rows: ``(..., n)`` to ``(..., 1)``."""
        return values.sum(-1, keepdim=True)

    def of_rows(self, table: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the one value ``(..., 1)``, which stands for all rows."""
        return table


ALL_ROWS = AllRows(torch.zeros(1, dtype=torch.int64), 1)
"""What a batch without groups is."""


def numbered(groups: Tensor, *, readable: bool) -> tuple[Tensor, int]:
    """Return numbers from 0 for values ``(..., n)``, equal ones for equal values of a row, and their largest possible count.

    Unless values are ``readable`` for free they are not looked at.
    """
    readable, n = readable and groups.numel() > 0, groups.shape[-1]
    if readable:
        low, high = (int(value) for value in groups.aminmax())
        if high - low <= 2 * n:  # nothing to sort: numbers that no row has are groups without rows
            return groups - low if low else groups, high - low + 1
    ranked, order = groups.sort(-1)
    numbers = pad((ranked[..., 1:] != ranked[..., :-1]).cumsum(-1), (1, 0)) if n else order
    return torch.zeros_like(order).scatter(-1, order, numbers), int(numbers.max()) + 1 if readable else n
