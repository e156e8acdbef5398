"""Groups of rows: which rows are compared with each other, and sums over each group in linear time."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.errors import InputError


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


def group_codes(groups: Any, *, name: str = "groups") -> np.ndarray | None:
    """Return one number from 0 for each row, given any values; rows with equal numbers belong to one group. None is without groups.

    Example:
        >>> group_codes(["b", "a", "b"])
        array([1, 0, 1])
    """
    if groups is None:
        return None
    # An array of strings would turn a missing value into the string 'nan'.
    values = np.asarray(groups, dtype=object if isinstance(groups, list | tuple) else None)
    if values.ndim != 1:
        raise InputError(f"{name} has shape {values.shape}; expected one value per row, such as a day or a patient: (rows,)")
    missing = np.flatnonzero([_is_missing(value) for value in values] if values.dtype == object else values != values)
    if len(missing):
        raise InputError(
            f"{name} has {len(missing)} missing of {len(values)} values, the first in row {missing[0]} (counted from 0); "
            "give every row a group"
        )
    try:
        return np.unique(values, return_inverse=True)[1]
    except TypeError:  # values of several types have no order, which codes do not need
        codes: dict[Any, int] = {}
        return np.array([codes.setdefault(value, len(codes)) for value in values])


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # a comparison with pandas.NA is neither true nor false
        return True


ROWS_TOGETHER = 8
"""Rows of a group that are taken together: enough to compare, few enough that a batch has several groups."""


def parts_of_groups(codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a number from 0 for each row: groups are cut into parts of ``ROWS_TOGETHER`` rows, or nearly as many, at random."""
    order = generator.permutation(len(codes))
    order = order[codes[order].argsort(kind="stable")]
    sizes = np.bincount(codes)
    parts = -(-sizes // ROWS_TOGETHER)
    within = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    part = np.empty_like(order)
    part[order] = np.repeat(np.cumsum(parts) - parts, sizes) + within * np.repeat(parts, sizes) // np.repeat(sizes, sizes)
    return part


def order_by_groups(codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return rows in a random order in which those of a part of a group come together.

    Example:
        >>> order = order_by_groups(np.arange(40) % 5, np.random.default_rng(0))
        >>> (order % 5).reshape(5, 8).std(1).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    part = parts_of_groups(codes, generator)
    return np.asarray(generator.permutation(part.max(initial=-1) + 1)[part].argsort(kind="stable"))
