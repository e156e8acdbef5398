"""What the losses on features share: checked inputs, weights of pairs, distances and similarities.

Features have shape ``(..., batch, dim)``, labels ``(batch,)`` or ``(..., batch, targets)``. A row counts as often as its weight
says; a row that is masked, or lacks a label under ``nan_policy="omit"``, does not count at all.

Models may share their labels: ``target.expand(models, batch, targets)`` holds them once, and what follows from them is then
computed once.
"""

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.errors import InputError
from gar.validation import (
    NanPolicy,
    check_device,
    check_labels,
    check_mask,
    check_nan_policy,
    check_tensor,
    check_weight,
    checked_pair,
    compute_dtype,
    is_traced,
    parameter_like,
)

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup

L = TypeVar("L")


class FeatureRows(NamedTuple):
    """Checked inputs: ``features (..., n, dim)``, ``target (..., n, targets)`` and how often each row counts, ``(..., n)``.

    Labels and weights that models share stay expanded, with a stride of zero.
    """

    features: Tensor
    target: Tensor
    weight: Tensor
    uniform: bool
    """True if every row is known to count once."""

    def size(self) -> Tensor:
        """Return the number of rows, counted with their weights."""
        return self.weight.sum(-1)

    def pair_weight(self) -> Tensor:
        """Return how often j is a partner of i, ``(..., n, n)``: as often as it counts, but a row is no partner of itself.

        Copies of a row are partners of each other, so a row that counts twice meets itself once.
        """
        diagonal = torch.diag_embed(self.weight - (self.weight - 1.0).clamp(min=0.0))
        return self.weight.unsqueeze(-2) - diagonal

    def label_gaps(self) -> Tensor:
        """Return ``|y_i - y_j|`` of every target, ``(..., targets, n, n)``."""
        return gaps(self.target)

    def model_by_model(self, prepare: Callable[["FeatureRows"], L]) -> Iterator[tuple[tuple[int, ...], "FeatureRows", L]]:
        """Yield the index of every model, its rows, and what ``prepare`` makes of its labels: once for neighbours that share them.

        One model at a time keeps all its pairs of rows in the nearest cache. Other devices would rather have all models at once:
        there the only index is ``()``.
        """
        if self.features.device.type != "cpu":
            yield (), self, prepare(self)
            return
        models = self.features.shape[:-2]
        known, prepared = None, None
        for index, features in zip(np.ndindex(models), self.features.flatten(0, -3) if models else [self.features], strict=True):
            rows = FeatureRows(features, self.target[index], self.weight[index], self.uniform)
            labels = rows.target.storage_offset(), rows.weight.storage_offset()
            if prepared is None or labels != known:
                known, prepared = labels, prepare(rows)
            yield index, rows, prepared


def gaps(values: Tensor) -> Tensor:
    """Return absolute differences of all rows in every column: ``(..., n, targets)`` to ``(..., targets, n, n)``."""
    values = values.mT
    return (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()


def as_rows(
    features: Tensor,
    target: Tensor,
    *,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> FeatureRows:
    """Check features against labels and bring them into one form."""
    check_nan_policy(nan_policy)
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
    features, target = features.to(dtype), _held_once(target).to(dtype)
    weight = _row_weight(features, target, sample_weight, mask, nan_policy)
    if sample_weight is None and mask is None and nan_policy != "omit" and weight.shape[-1] > 1:
        return _for_all_models(features, target, weight, uniform=True)
    if weight.shape[-1] == 0:  # an empty batch: one row that does not count
        features, target, weight = pad(features, (0, 0, 0, 1)), pad(target, (0, 0, 0, 1)), pad(weight, (0, 1))
    counts = (weight > 0).unsqueeze(-1)
    return _for_all_models(features.where(counts, 0.0), target.where(counts, 0.0), weight, uniform=False)


def join_batch(
    group: "ProcessGroup", features: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None, *pred: Tensor
) -> tuple[Any, ...]:
    """Return all of these with the rows of all ranks, each of which then computes the loss of the joined batch.

    Shapes are checked before, where they are known, and all ranks raise for a wrong one; labels are checked after.
    """
    from gar.functional.exchange import join_rows

    def check() -> None:
        as_rows(features, target, sample_weight=sample_weight, mask=mask, nan_policy="propagate")
        for one in pred:
            checked_pair(one, target)

    axis = getattr(features, "ndim", 2) - 2  # what is no tensor is refused by the check
    return join_rows(group, features, target, sample_weight, mask, *pred, axis=axis, check=check)  # type: ignore[no-any-return]


def parameter_of_pairs(value: float | Tensor, rows: FeatureRows, name: str) -> float | Tensor:
    """Return a loss parameter as a number, or as one value per model that meets its pairs of rows, ``(..., 1, 1)``."""
    value = parameter_like(value, rows.features.shape[:-2], rows.features, name)
    return value[..., None, None] if isinstance(value, Tensor) else value


def _held_once(values: Tensor, *, after: int = 2) -> Tensor:
    """Return values without copies along expanded leading dimensions, which are all but the last ``after``."""
    if is_traced():
        return values
    lead = range(values.ndim - after)
    return values[tuple(slice(0, 1) if values.stride(dim) == 0 else slice(None) for dim in lead)]


def _for_all_models(features: Tensor, target: Tensor, weight: Tensor, *, uniform: bool) -> FeatureRows:
    rows = features.shape[:-1]
    return FeatureRows(features, target.expand(*rows, target.shape[-1]), weight.expand(rows), uniform)


def _row_weight(
    features: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None, nan_policy: NanPolicy
) -> Tensor:
    """Return how often each row counts, with leading dimensions of size 1 where models share it."""
    rows = features.shape[:-1]
    weight = target.new_ones(target.shape[:-1])
    weighted = sample_weight is not None or mask is not None
    if sample_weight is not None:
        _check_rows(sample_weight, features, "sample_weight")
        weight = _held_once(sample_weight, after=1).to(weight)
        check_weight(weight)
    if mask is not None:
        check_mask(mask)
        mask = mask.all(-1) if mask.shape == (*rows, target.shape[-1]) and mask.shape != rows else mask
        _check_rows(mask, features, "mask")
        weight = weight * _held_once(mask, after=1)
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
    """Return the Euclidean distances of all rows, ``(..., n, n)``; coincident rows have distance 0 and no gradient."""
    between, rounding = _squared_distances(features)
    coincident = between <= rounding  # False for NaN, which stays visible
    return torch.where(coincident, 0.0, torch.where(coincident, 1.0, between).sqrt())


def quick_distances(features: Tensor) -> Tensor:
    """Like :func:`distances`, without a gradient. On a CPU comparisons into floats are much quicker than those into booleans."""
    between, rounding = _squared_distances(features)
    apart = torch.gt(between, rounding, out=torch.empty_like(between))
    between = apart.mul_(between).sqrt_()
    between.diagonal(dim1=-2, dim2=-1).zero_()  # whatever rounding there is
    return between


def _squared_distances(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return squared distances of all rows, and the values below which these are rounding.

    They are one matrix product, ``(z_i, |z_i|^2, 1) . (-2 z_j, 1, |z_j|^2)``, in double precision, in which near rows keep digits.
    """
    exact = features.double()
    exact = exact - exact.mean(-2, keepdim=True).detach()
    squares = exact.square().sum(-1, keepdim=True)
    ones = torch.ones_like(squares)
    between = torch.cat([exact, squares, ones], -1) @ torch.cat([-2.0 * exact, ones, squares], -1).mT
    slack = max(16.0, features.shape[-1] ** 0.5)  # errors of a long sum grow with the root of its length
    rounding = slack * torch.finfo(between.dtype).eps * squares.detach().amax(-2, keepdim=True)
    return between.to(features.dtype), rounding.to(features.dtype)


def unit_rows(features: Tensor) -> Tensor:
    """Return rows divided by their length; a row of zeros stays zero and has no gradient."""
    return features / _lengths(features)


def _lengths(features: Tensor) -> Tensor:
    """Return the length of every row, ``(..., n, 1)``; infinite for a row of zeros."""
    squares = features.square().sum(-1, keepdim=True)
    empty = squares <= torch.finfo(features.dtype).tiny
    return torch.where(empty, torch.inf, squares).sqrt()


class Cosines:
    """Cosine similarities of all rows, ``values (..., n, n)``, and the way from derivatives by them to those by features."""

    def __init__(self, features: Tensor) -> None:
        self._lengths = _lengths(features).mT
        self._unit = features.mT / self._lengths
        self.values = self._unit.mT @ self._unit

    def by_features(self, slopes: Tensor) -> Tensor:
        """Apply the chain rule: the similarity of i and j depends on both, and not on their lengths."""
        by_unit = sum_over_pairs(self._unit, slopes)
        return ((by_unit - (by_unit * self._unit).sum(-2, keepdim=True) * self._unit) / self._lengths).mT


def sum_over_pairs(columns: Tensor, pairs: Tensor) -> Tensor:
    """Return ``sum_j (p_ij + p_ji) z_j`` of columns ``z (..., dim, n)``: a layout in which the two products are quick."""
    columns = columns.contiguous()
    return columns @ pairs.mT + columns @ pairs


def quick_exp_(values: Tensor) -> Tensor:
    """Apply ``exp`` in place to values up to 0. Results below the smallest normal number, which is slow, are about that number."""
    return values.clamp_(min=math.log(torch.finfo(values.dtype).tiny) + 0.1).exp_()
