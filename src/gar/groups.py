"""Groups of rows: which rows are compared with each other, and sums over each group in linear time."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.errors import InputError
from gar.validation import can_be_read, check_device, check_tensor


class Groups(NamedTuple):
    """The group of every row. Sums over groups are one scatter, whatever the number of groups and the order of rows."""

    index: Tensor
    """Whole numbers from 0: ``(n,)`` for all models, or ``(..., 1, n)``."""
    count: int
    """The number of groups, or a larger one, where a look at the values would wait for the device: a group may have no rows."""

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum over the rows of every group: ``(..., n)`` to ``(..., groups)``."""
        index = self.index.expand(values.shape)
        return values.new_zeros(*values.shape[:-1], self.count).scatter_add(-1, index, values)

    def of_rows(self, table: Tensor, out: Tensor | None = None) -> Tensor:
        """Return, for every row, the value of its group: ``(..., groups)`` to ``(..., n)``."""
        if self.index.ndim == 1:
            return torch.index_select(table, -1, self.index, out=out)
        return torch.gather(table, -1, self.index.expand(*table.shape[:-1], -1), out=out)


class AllRows(Groups):
    """All rows of a column as one group, without a scatter."""

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum over all rows: ``(..., n)`` to ``(..., 1)``."""
        return values.sum(-1, keepdim=True)

    def of_rows(self, table: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the one value ``(..., 1)``, which stands for all rows."""
        return table


ALL_ROWS = AllRows(torch.zeros(1, dtype=torch.int64), 1)


def as_groups(groups: Tensor, pred: Tensor) -> Groups:
    """Check group labels, any whole numbers in any order, one per row of ``pred``, and number the groups from 0.

    Example:
        >>> as_groups(torch.tensor([70, -3, 70]), torch.zeros(3, 1))
        Groups(index=tensor([1, 0, 1]), count=2)
    """
    check_groups(groups)
    check_device(pred, groups, "groups")
    rows = pred.shape[:1] if pred.ndim == 1 else pred.shape[:-1]
    if groups.shape not in (rows, rows[-1:]):
        allowed = f"{tuple(rows[-1:])}" + (f" or {tuple(rows)}" if len(rows) > 1 else "")
        raise InputError(
            f"groups has shape {tuple(groups.shape)}; for pred of shape {tuple(pred.shape)} it must be {allowed}: one group per row"
        )
    index, count = _numbered(groups.long())
    return Groups(index if groups.ndim == 1 else index.unsqueeze(-2), count)


def check_groups(groups: Tensor) -> None:
    """Raise unless these are whole numbers."""
    check_tensor(groups, "groups")
    if groups.is_floating_point():
        missing = int(groups.isnan().sum()) if can_be_read(groups) else 0
        found = f"{missing} NaN of {groups.numel()} values" if missing else f"dtype {groups.dtype}"
        raise InputError(f"groups has {found}; expected whole numbers, a group for every row: use groups.long() if they are whole")


def _numbered(groups: Tensor) -> tuple[Tensor, int]:
    """Return numbers from 0 for values ``(..., n)``, equal ones for equal values of a row, and their largest possible count."""
    readable, n = can_be_read(groups) and groups.numel() > 0, groups.shape[-1]
    if readable:
        low, high = (int(value) for value in groups.aminmax())
        if high - low <= 2 * n:  # nothing to sort: numbers that no row has are groups without rows
            return groups - low if low else groups, high - low + 1
    ranked, order = groups.sort(-1)
    numbers = pad((ranked[..., 1:] != ranked[..., :-1]).cumsum(-1), (1, 0)) if n else order
    return torch.zeros_like(order).scatter(-1, order, numbers), int(numbers.max()) + 1 if readable else n
