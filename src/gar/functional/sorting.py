"""Rows in ascending order, with equal values as groups."""

import sys
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.validation import is_traced


class Order(NamedTuple):
    """Rows in ascending order: ``indices`` sorts them, ``begins`` is True where a value differs from the one before it."""

    indices: Tensor
    begins: Tensor
    tied: bool
    """False if all values are known to differ."""

    def without_first(self) -> "Order":
        """Return the order without the first index of every row, whose value must be smaller than all others."""
        return Order(self.indices[..., 1:], self.begins[..., 1:], self.tied)

    def first(self) -> Tensor:
        """Return the position at which the group of equal values of each position begins."""
        values = torch.arange(self.indices.shape[-1], device=self.indices.device)
        return (values * self.begins).cummax(-1).values if self.tied else values.expand(self.indices.shape)

    def last(self) -> Tensor:
        """Return the position at which that group ends: where it begins, seen from the other side."""
        ends = pad(self.begins[..., 1:], (0, 1), value=True)
        return self.indices.shape[-1] - 1 - Order(self.indices, ends.flip(-1), self.tied).first().flip(-1)

    def assign(self, values: Tensor) -> Tensor:
        """Assign ``values (n,)`` to the rows: the first to the smallest, and equal ones all get the first of their group."""
        shape = self.indices.shape
        in_order = values.index_select(0, self.first().flatten()).reshape(shape) if self.tied else values.expand(shape)
        return values.new_empty(shape).scatter(-1, self.indices, in_order)


def ascending(values: Tensor) -> Order:
    """Sort the last dimension. Eager mode on the CPU sorts with numpy, which is much faster than torch on rows of a few hundred."""
    values = values.detach()
    if values.device.type == "cpu" and not is_traced():
        order, begins = _argsort(values.numpy())
        return Order(torch.from_numpy(order), torch.from_numpy(begins), tied=not begins.all())
    indices = values.argsort(-1)
    ranked = values.gather(-1, indices)
    return Order(indices, pad(ranked[..., 1:] != ranked[..., :-1], (1, 0), value=True), tied=True)


def _argsort(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``values.argsort(-1)``, and True where a value differs from the one before it.

    Numpy sorts numbers much faster than it sorts indices. So each float32 becomes an integer of the same order, with its index in
    the low bits.
    """
    if values.dtype != np.float32:
        indices = values.argsort(-1)
        return indices, _begins(np.take_along_axis(values, indices, -1))
    bits = np.add(values, 0.0, order="C").view(np.int32)  # no negative zero is left
    signs = bits >> 31
    signs &= 0x7FFFFFFF
    signs ^= bits
    keys = signs.astype(np.int64)
    keys <<= 32
    keys |= np.arange(values.shape[-1])
    keys.sort(-1)
    begins = _begins(keys.view(np.int32)[..., int(sys.byteorder == "little") :: 2])
    keys &= 0xFFFFFFFF
    return keys, begins


def _begins(ranked: np.ndarray) -> np.ndarray:
    begins = np.ones(ranked.shape, bool)
    np.not_equal(ranked[..., 1:], ranked[..., :-1], out=begins[..., 1:])
    return begins
