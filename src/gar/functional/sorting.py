"""Rows put in order, with equal values seen as groups."""

import sys
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.validation import is_traced


class Order(NamedTuple):
    """Rows in ascending order: ``places`` sorts them, ``begins`` is True where a value differs from the one before it."""

    places: Tensor
    begins: Tensor
    tied: bool
    """Whether there may be equal values."""

    def without_first(self) -> "Order":
        """The same without the first place of every row, whose value must be smaller than all others."""
        return Order(self.places[..., 1:], self.begins[..., 1:], self.tied)

    def first(self) -> Tensor:
        """Where each place's group of equal values begins."""
        numbers = torch.arange(self.places.shape[-1], device=self.places.device)
        return (numbers * self.begins).cummax(-1).values if self.tied else numbers.expand(self.places.shape)

    def last(self) -> Tensor:
        """Where each place's group of equal values ends: where it begins, seen from the other side."""
        ends = pad(self.begins[..., 1:], (0, 1), value=True)
        return self.places.shape[-1] - 1 - Order(self.places, ends.flip(-1), self.tied).first().flip(-1)

    def hand_out(self, numbers: Tensor) -> Tensor:
        """Numbers ``(n,)`` to the values of every row: the first to the smallest, and equal values all get the first of theirs."""
        shape = self.places.shape
        in_order = numbers.index_select(0, self.first().flatten()).reshape(shape) if self.tied else numbers.expand(shape)
        return numbers.new_empty(shape).scatter(-1, self.places, in_order)


def ascending(values: Tensor) -> Order:
    """Sort the last dimension. Eager mode on the CPU sorts with numpy, which is much faster than torch on rows of a few hundred."""
    values = values.detach()
    if values.device.type == "cpu" and not is_traced():
        sorted_places, begins = _argsort(values.numpy())
        return Order(torch.from_numpy(sorted_places), torch.from_numpy(begins), tied=not begins.all())
    places = values.argsort(-1)
    ranked = values.gather(-1, places)
    return Order(places, pad(ranked[..., 1:] != ranked[..., :-1], (1, 0), value=True), tied=True)


def _argsort(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``values.argsort(-1)``, and where a value differs from the one before it.

    Numpy sorts numbers much faster than it sorts indices. So each float32 becomes an integer of the same order, with its place in
    the low bits.
    """
    if values.dtype != np.float32:
        places = values.argsort(-1)
        return places, _begins(np.take_along_axis(values, places, -1))
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
