"""What the losses on features share: checked inputs, weights of pairs, distances, and rows put in order.

Features have shape ``(..., batch, dim)``, labels ``(batch,)`` or ``(..., batch, targets)``. A row counts as often as its weight
says; a row that is masked, or lacks a label under ``nan_policy="omit"``, does not count at all.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.errors import InputError
from gar.functional._inputs import (
    NanPolicy,
    check_choice,
    check_labels,
    check_mask,
    check_rows,
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
    if features.device != target.device:
        raise InputError(f"features are on {features.device}, target on {target.device}; use target.to(features.device)")
    dtype = compute_dtype(features, target)
    features, target = features.to(dtype), target.to(dtype)
    weight = _row_weight(features, target, sample_weight, mask, nan_policy)
    if weight.shape[-1] == 0:  # an empty batch: one row that does not count
        features, target, weight = pad(features, (0, 0, 0, 1)), pad(target, (0, 0, 0, 1)), pad(weight, (0, 1))
    counts = (weight > 0).unsqueeze(-1)
    return Rows(features.where(counts, 0.0), target.where(counts, 0.0), weight)


def _row_weight(
    features: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None, nan_policy: NanPolicy
) -> Tensor:
    rows = features.shape[:-1]
    weight = features.new_ones(rows)
    if sample_weight is not None:
        check_rows(sample_weight, rows, "sample_weight", "a loss on features")
        weight = sample_weight.to(weight)
        check_weight(weight)
    if mask is not None:
        check_mask(mask)
        mask = mask.all(-1) if mask.shape == target.shape and mask.shape != rows else mask
        check_rows(mask, rows, "mask", "a loss on features")
        weight = weight * mask
    if nan_policy == "omit":
        weight = weight * ~target.isnan().any(-1)
    elif nan_policy == "raise":
        check_labels(target.where((weight > 0).unsqueeze(-1), 0.0))
    return weight


def distances(features: Tensor) -> Tensor:
    """Euclidean distances of all rows, ``(..., n, n)``, in double precision; coincident rows have distance 0 and no gradient."""
    features = features.double()
    features = features - features.mean(-2, keepdim=True).detach()
    squares = features.square().sum(-1)
    squares = squares.unsqueeze(-1) + squares.unsqueeze(-2)
    between = squares - 2.0 * (features @ features.mT)
    coincident = between <= 8.0 * torch.finfo(between.dtype).eps * squares  # False for NaN, which stays visible
    return torch.where(coincident, 0.0, torch.where(coincident, 1.0, between).sqrt())


def unit_rows(features: Tensor) -> Tensor:
    """Rows divided by their length; a row of zeros stays zero and has no gradient."""
    squares = features.square().sum(-1, keepdim=True)
    empty = squares <= torch.finfo(features.dtype).tiny
    return features / torch.where(empty, torch.inf, squares).sqrt()


class Order(NamedTuple):
    """Rows in ascending order: ``places`` sorts them, ``first`` and ``last`` bound each place's group of equal values."""

    places: Tensor
    first: Tensor
    last: Tensor


def ascending(values: Tensor) -> Order:
    """Sort the last dimension. Eager mode on the CPU sorts with numpy, thirty times as fast as torch on rows of a few hundred."""
    if values.device.type == "cpu" and not is_traced():
        return Order(*map(torch.from_numpy, _ascending_arrays(values.detach().numpy())))
    index = values.detach().argsort(-1)
    ranked = values.detach().gather(-1, index)
    place = torch.arange(values.shape[-1], device=values.device).expand(values.shape)
    starts = torch.ones_like(ranked, dtype=torch.bool)
    starts[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    ends = torch.ones_like(starts)
    ends[..., :-1] = starts[..., 1:]
    first = torch.where(starts, place, 0).cummax(-1).values
    last = torch.where(ends, place, values.shape[-1]).flip(-1).cummin(-1).values.flip(-1)
    return Order(index, first, last)


def _ascending_arrays(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    index = values.argsort(-1)
    ranked = np.take_along_axis(values, index, -1)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    tied = ranked[..., 1:] == ranked[..., :-1]
    first, last = place.copy(), place.copy()
    if tied.any():
        first[..., 1:][tied] = 0
        np.maximum.accumulate(first, -1, out=first)
        last[..., :-1][tied] = values.shape[-1]
        last = np.minimum.accumulate(last[..., ::-1], -1)[..., ::-1].copy()
    return index, first, last
