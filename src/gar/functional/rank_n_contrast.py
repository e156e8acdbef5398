"""Rank-N-Contrast: features whose distances rank as the distances of labels do (Zha et al., NeurIPS 2023)."""

from __future__ import annotations  # torch.compile of PyTorch 2.6 does not trace those of inner functions

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gar.functional.custom_backward import with_custom_backward
from gar.functional.features import (
    FeatureRows,
    as_rows,
    distances,
    join_batch,
    parameter_of_pairs,
    quick_distances,
    quick_exp_,
    sum_over_pairs,
)
from gar.functional.sorting import ascending
from gar.validation import NanPolicy, can_be_read, in_full_precision, is_traced, needs_derivative

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


@in_full_precision
def rank_n_contrast_loss(
    features: Tensor,
    target: Tensor,
    *,
    temperature: float | Tensor = 2.0,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
    process_group: ProcessGroup | None = None,
) -> Tensor:
    r"""For every pair, the partner should be nearer than all that are at least as far away in label.

    .. math:: -\frac{1}{n(n-1)} \sum_i \sum_{j \ne i} \log \frac{e^{s_{ij}}}{\sum_{k \ne i,\, d_{ik} \ge d_{ij}} e^{s_{ik}}},
        \quad s_{ij} = -\|z_i - z_j\|_2 / \tau, \quad d_{ij} = \|y_i - y_j\|_1

    Args:
        features: ``(..., batch, dim)``; leading dimensions are independent models.
        target: ``(batch,)`` or ``(..., batch, targets)``. Models that share labels are quicker with
            ``target.expand(models, batch, targets)`` than with copies.
        temperature: :math:`\tau > 0`, a number or one value per model.
        sample_weight: how often each row counts, ``(..., batch)``.
        mask: True where a row counts, ``(..., batch)``.
        nan_policy: as in :func:`gar.functional.gar_loss`; ``"omit"`` leaves out rows that lack a label.
        process_group: ``"world"`` or a group: the loss of the joined batch of its ranks, exact for any shards. Rows of all ranks
            are exchanged, and each rank computes all pairs. Made for DistributedDataParallel, which averages gradients.

    Returns:
        One value per model. Fewer than two rows give 0. Time is ``n^2 log n``, with equal label distances handled exactly.

    Example:
        >>> rank_n_contrast_loss(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0.0, 1.0, 2.0]), temperature=1.0)
        tensor(0.3445)
    """
    if process_group is not None:
        features, target, sample_weight, mask = join_batch(process_group, features, target, sample_weight, mask)

    def checked(features: Tensor) -> tuple[FeatureRows, float | Tensor]:
        rows = as_rows(features, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
        return rows, parameter_of_pairs(temperature, rows, "temperature")

    def plain(features: Tensor) -> Tensor:
        rows, per_model = checked(features)
        return _plain(rows, _partners(rows), per_model)

    def solve(features: Tensor) -> tuple[Tensor, Tensor]:
        rows, per_model = checked(features)
        value, gradient = rows.features.new_empty(rows.features.shape[:-2]), torch.empty_like(rows.features)
        for index, mine, partners in rows.model_by_model(_partners):
            strength = per_model[index] if isinstance(per_model, Tensor) else per_model
            value[index], gradient[index] = _value_and_gradient(mine, partners, strength)
        return value, gradient[..., : features.shape[-2], :].to(features.dtype)

    # The closed form gives the gradient by features alone, and looks at sums, which would make an accelerator wait.
    if not can_be_read(features) or needs_derivative(sample_weight, temperature):
        return plain(features)
    return with_custom_backward(features, solve, plain)


class _Partners(NamedTuple):
    """What follows from labels alone: the partners of every row, ``(..., n, partners)``, from near to far in label."""

    indices: Tensor
    first: Tensor | None
    """The position at which the group of partners at an equal distance begins; None if all distances differ."""
    last: Tensor | None
    """The position at which that group ends."""
    weight: Tensor | None
    """The number of times that each counts; None for once."""
    share: Tensor
    """The share of each pair in the mean over pairs; may be one number."""


def _partners(rows: FeatureRows) -> _Partners:
    gaps = rows.label_gaps()
    gaps = gaps.squeeze(-3) if gaps.shape[-3] == 1 else gaps.sum(-3)
    if rows.uniform and not is_traced():
        n = rows.weight.shape[-1]
        gaps.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # so a row itself comes first, and is taken off its list
        order = ascending(gaps).without_first()
        weight, share = None, rows.weight.new_full((), 1.0 / (n * (n - 1)))
    else:
        order = ascending(gaps)
        weight = rows.pair_weight().gather(-1, order.indices)
        pairs = rows.weight.unsqueeze(-1) * weight
        count = pairs.sum((-2, -1), keepdim=True)
        share = pairs / (count + (count == 0))
    first, last = (order.first(), order.last()) if order.tied else (None, None)
    return _Partners(order.indices, first, last, weight, share)


def _plain(rows: FeatureRows, partners: _Partners, temperature: float | Tensor) -> Tensor:
    """Evaluate the definition as differentiable operations that never underflow."""
    ranked = (-distances(rows.features) / temperature).gather(-1, partners.indices)
    weight = torch.ones_like(ranked) if partners.weight is None else partners.weight
    present = weight > 0
    logs = torch.where(present, ranked + torch.where(present, weight, 1.0).log(), torch.finfo(ranked.dtype).min)
    farther = _at(logs.flip(-1).logcumsumexp(-1).flip(-1), partners.first)
    return torch.where(present, partners.share * (farther - ranked), 0.0).sum((-2, -1))


def _value_and_gradient(rows: FeatureRows, partners: _Partners, temperature: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient by the features.

    With partners in the order of their label distance, ``D_j`` the sum over those at least as far as j, and ``w_j`` how often j
    counts, the derivative by ``s_k`` is ``w_k exp(s_k) sum_{j: d_j <= d_k} w_j / D_j - w_k``: one more running sum.
    """
    distance, share = quick_distances(rows.features), partners.share
    ranked = distance.gather(-1, partners.indices)
    below = (ranked.amin(-1, keepdim=True) - ranked).div_(temperature)
    power = quick_exp_(below.clone())
    power = power if partners.weight is None else power.mul_(partners.weight)
    sums = _at(power.flip(-1).cumsum(-1).flip(-1), partners.first)
    sums = sums if partners.weight is None else torch.where(share > 0, sums, 1.0)
    if not float(sums.min()) > 1e3 * torch.finfo(sums.dtype).tiny / torch.finfo(sums.dtype).eps:  # so for NaN, too
        return _by_autograd(rows, partners, temperature)
    value = _total(share, sums.log()) - _total(share, below)
    slopes = _at((share / sums).cumsum(-1), partners.last).mul_(power).sub_(share)
    slopes = torch.zeros_like(distance).scatter_(-1, partners.indices, slopes)  # what is left is between a row and itself
    return value, _by_features(slopes, distance, rows.features) / -temperature


def _at(values: Tensor, indices: Tensor | None) -> Tensor:
    return values if indices is None else values.gather(-1, indices)


def _total(share: Tensor, values: Tensor) -> Tensor:
    """Return the sum over all pairs, each times its share, which may be one number."""
    return share * values.sum((-2, -1)) if share.ndim == 0 else (share * values).sum((-2, -1))


def _by_features(slopes: Tensor, distance: Tensor, features: Tensor) -> Tensor:
    """Turn derivatives by distances into derivatives by features: ``sum_j (g_ij + g_ji) (z_i - z_j) / |z_i - z_j|``."""
    pull = (slopes / distance).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)  # coincident rows do not pull, nor a row itself
    columns = (features - features.mean(-2, keepdim=True)).mT
    return ((pull.sum(-1) + pull.sum(-2)).unsqueeze(-2) * columns - sum_over_pairs(columns, pull)).mT


def _by_autograd(rows: FeatureRows, partners: _Partners, temperature: float | Tensor) -> tuple[Tensor, Tensor]:
    """Use autograd: the slow path, for features so far apart that exponentials vanish, or for NaN."""
    with torch.enable_grad():
        leaf = rows.features.detach().requires_grad_()
        value = _plain(rows._replace(features=leaf), partners, temperature)
        return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]
