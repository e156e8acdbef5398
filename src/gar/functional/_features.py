"""What the losses on features share: checked inputs, weights of pairs, distances, and rows put in order.

Features have shape ``(..., batch, dim)``, labels ``(batch,)`` or ``(..., batch, targets)``. A row counts as often as its weight
says; a row that is masked, or lacks a label under ``nan_policy="omit"``, does not count at all.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.errors import InputError
from gar.functional._inputs import (
    NanPolicy,
    check_choice,
    check_device,
    check_labels,
    check_mask,
    check_tensor,
    check_weight,
    compute_dtype,
    is_traced,
)


class Rows(NamedTuple):
    """Checked inputs: ``features (..., n, dim)``, ``target (..., n, targets)`` and how often each row counts, ``(..., n)``."""

    features: Tensor
    target: Tensor
    weight: Tensor
    uniform: bool
    """Whether every row is known to count once."""

    @property
    def size(self) -> Tensor:
        return self.weight.sum(-1)

    def pair_weight(self) -> Tensor:
        """How often j is a partner of i, ``(..., n, n)``: as often as it counts, but a row is no partner of itself.

        Copies of a row are partners of each other, so a row that counts twice meets itself once.
        """
        diagonal = torch.diag_embed(self.weight - (self.weight - 1.0).clamp(min=0.0))
        return self.weight.unsqueeze(-2) - diagonal

    def label_gaps(self) -> Tensor:
        """``|y_i - y_j|`` of every target, ``(..., targets, n, n)``."""
        return gaps(self.target)


def gaps(values: Tensor) -> Tensor:
    """Absolute differences of all rows in every column: ``(..., n, targets)`` to ``(..., targets, n, n)``."""
    values = values.mT
    return (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()


def as_rows(
    features: Tensor,
    target: Tensor,
    *,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Rows:
    """Check features against labels and bring them into one form."""
    check_choice(nan_policy, ("raise", "omit", "propagate"), "nan_policy")
    check_tensor(features, "features")
    check_tensor(target, "target")
    if features.ndim < 2 or not features.is_floating_point():
        raise InputError(f"features have shape {tuple(features.shape)} and {features.dtype}; expected floats (..., batch, dim)")
    rows = features.shape[:-1]
    if target.shape == rows:
        target = target.unsqueeze(-1)
    if target.shape[:-1] != rows:
        raise InputError(
            f"features have shape {tuple(features.shape)}, target {tuple(target.shape)}; expected labels of shape "
            f"{tuple(rows)} or {(*rows, 'targets')}"
        )
    check_device(features, target, "target", one_name="features")
    dtype = compute_dtype(features, target)
    features, target = features.to(dtype), target.to(dtype)
    weight = _row_weight(features, target, sample_weight, mask, nan_policy)
    if sample_weight is None and mask is None and nan_policy != "omit" and weight.shape[-1] > 1:
        return Rows(features, target, weight, uniform=True)
    if weight.shape[-1] == 0:  # an empty batch: one row that does not count
        features, target, weight = pad(features, (0, 0, 0, 1)), pad(target, (0, 0, 0, 1)), pad(weight, (0, 1))
    counts = (weight > 0).unsqueeze(-1)
    return Rows(features.where(counts, 0.0), target.where(counts, 0.0), weight, uniform=False)


def _row_weight(
    features: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None, nan_policy: NanPolicy
) -> Tensor:
    rows = features.shape[:-1]
    weight = features.new_ones(rows)
    weighted = sample_weight is not None or mask is not None
    if sample_weight is not None:
        _check_rows(sample_weight, features, "sample_weight")
        weight = sample_weight.to(weight)
        check_weight(weight)
    if mask is not None:
        check_mask(mask)
        mask = mask.all(-1) if mask.shape == target.shape and mask.shape != rows else mask
        _check_rows(mask, features, "mask")
        weight = weight * mask
    if nan_policy == "omit":
        weight = weight * ~target.isnan().any(-1)
    elif nan_policy == "raise":
        check_labels(target.where((weight > 0).unsqueeze(-1), 0.0) if weighted else target)
    return weight


def _check_rows(value: Tensor, features: Tensor, name: str) -> None:
    check_tensor(value, name)
    rows = tuple(features.shape[:-1])
    if value.shape != rows:
        raise InputError(f"{name} has shape {tuple(value.shape)}, but a loss on features needs one value per row: {rows}")
    check_device(features, value, name, one_name="features")


def distances(features: Tensor) -> Tensor:
    """Euclidean distances of all rows, ``(..., n, n)``; coincident rows have distance 0 and no gradient.

    Squared distances are one matrix product, ``(z_i, |z_i|^2, 1) . (-2 z_j, 1, |z_j|^2)``, in double precision, since near rows
    would lose their digits in less.
    """
    exact = features.double()
    exact = exact - exact.mean(-2, keepdim=True).detach()
    squares = exact.square().sum(-1, keepdim=True)
    ones = torch.ones_like(squares)
    between = torch.cat([exact, squares, ones], -1) @ torch.cat([-2.0 * exact, ones, squares], -1).mT
    rounding = 16.0 * torch.finfo(between.dtype).eps * squares.detach().amax(-2, keepdim=True)
    between = between.to(features.dtype)
    coincident = between <= rounding  # False for NaN, which stays visible
    return torch.where(coincident, 0.0, torch.where(coincident, 1.0, between).sqrt())


def unit_rows(features: Tensor) -> Tensor:
    """Rows divided by their length; a row of zeros stays zero and has no gradient."""
    squares = features.square().sum(-1, keepdim=True)
    empty = squares <= torch.finfo(features.dtype).tiny
    return features / torch.where(empty, torch.inf, squares).sqrt()


class Order:
    """Rows in ascending order: ``places`` sorts them, ``follows`` is True where a value equals the one before it."""

    def __init__(self, places: Tensor, follows: Tensor, rows: Tensor | None) -> None:
        self.places, self.follows, self._rows = places, follows, rows
        self.tied = rows is None or bool(rows.any())
        """Whether there may be equal values; ``rows`` says where, None for anywhere."""

    def without_first(self) -> "Order":
        """The same without the first place of every row."""
        return Order(self.places[..., 1:], self.follows[..., 1:], self._rows)

    def first(self) -> Tensor:
        """Where each place's group of equal values begins."""
        return self._bound(lambda follows, numbers: torch.where(pad(follows, (1, 0)), 0, numbers).cummax(-1).values)

    def last(self) -> Tensor:
        """Where each place's group of equal values ends."""

        def ends(follows: Tensor, numbers: Tensor) -> Tensor:
            marked = torch.where(pad(follows, (0, 1)), numbers.shape[-1], numbers)
            return marked.flip(-1).cummin(-1).values.flip(-1)

        return self._bound(ends)

    def _bound(self, bound: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        numbers = torch.arange(self.places.shape[-1], device=self.places.device).expand(self.places.shape)
        if not self.tied:
            return numbers
        if self._rows is None:
            return bound(self.follows, numbers)
        rows, numbers = self._rows, numbers.clone()  # rows with equal values are few, unless labels are whole numbers
        numbers[rows] = bound(self.follows[rows], numbers[rows])
        return numbers


def ascending(values: Tensor) -> Order:
    """Sort the last dimension. Eager mode on the CPU sorts with numpy, which is much faster than torch on rows of a few hundred."""
    values = values.detach()
    if values.device.type != "cpu" or is_traced():
        places = values.argsort(-1)
        ranked = values.gather(-1, places)
        return Order(places, ranked[..., 1:] == ranked[..., :-1], None)
    places = torch.from_numpy(_argsort(values.contiguous().numpy()))
    ordered = values.gather(-1, places).numpy()
    follows = ordered[..., 1:] == ordered[..., :-1]
    return Order(places, torch.from_numpy(follows), torch.from_numpy(np.asarray(follows.any(-1))))


def _argsort(values: np.ndarray) -> np.ndarray:
    """Like ``values.argsort(-1)``, but numpy sorts numbers much faster than it sorts indices.

    So each float32 becomes an integer of the same order, with its place in the low bits.
    """
    if values.dtype != np.float32:
        return values.argsort(-1)
    bits = values.view(np.int32)
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) << 32
    keys |= np.arange(values.shape[-1])
    keys.sort(-1)
    keys &= 0xFFFFFFFF
    return keys
