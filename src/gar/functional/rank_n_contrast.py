"""Rank-N-Contrast: features whose distances rank as the distances of labels do (Zha et al., NeurIPS 2023)."""

import torch
from torch import Tensor

from gar.functional._features import Order, as_rows, ascending, distances
from gar.functional._inputs import NanPolicy, in_full_precision, is_traced, parameter_like


@in_full_precision
def rank_n_contrast_loss(
    features: Tensor,
    target: Tensor,
    *,
    temperature: float | Tensor = 2.0,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    r"""For every pair, the partner should be nearer than all that are at least as far away in label.

    .. math:: -\frac{1}{n(n-1)} \sum_i \sum_{j \ne i} \log \frac{e^{s_{ij}}}{\sum_{k \ne i,\, d_{ik} \ge d_{ij}} e^{s_{ik}}},
        \quad s_{ij} = -\|z_i - z_j\|_2 / \tau, \quad d_{ij} = \|y_i - y_j\|_1

    Args:
        features: ``(..., batch, dim)``; leading dimensions are independent models.
        target: ``(batch,)`` or ``(..., batch, targets)``.
        temperature: :math:`\tau > 0`, a number or one value per model.
        sample_weight: how often each row counts, ``(..., batch)``.
        mask: True where a row counts, ``(..., batch)``.
        nan_policy: as in :func:`gar.functional.gar_loss`; ``"omit"`` leaves out rows that lack a label.

    Returns:
        One value per model. Fewer than two rows give 0. Time is ``n^2 log n``, with equal label distances handled exactly.

    Example:
        >>> rank_n_contrast_loss(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0.0, 1.0, 2.0]), temperature=1.0)
        tensor(0.4089)
    """
    rows = as_rows(features, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    temperature = parameter_like(temperature, rows.features.shape[:-2], rows.features, "temperature")
    temperature = temperature[..., None, None] if isinstance(temperature, Tensor) else temperature
    similarity = -distances(rows.features) / temperature
    weight = rows.pair_weight().double()
    order = ascending(rows.label_gaps().sum(-3))
    farther = _log_sum_of_farther(similarity, weight, order)
    per_pair = torch.where(weight > 0, farther - similarity, 0.0)
    pairs = (rows.weight.unsqueeze(-1) * weight).sum((-2, -1))
    total = (rows.weight.unsqueeze(-1) * weight * per_pair).sum((-2, -1))
    return (total / (pairs + (pairs == 0))).to(rows.features.dtype)


def _log_sum_of_farther(similarity: Tensor, weight: Tensor, order: Order) -> Tensor:
    """``log sum_k w_k exp(s_ik)`` over the partners k that are, in label, at least as far from i as j is."""
    ranked = similarity.gather(-1, order.places)
    ranked_weight = weight.gather(-1, order.places)
    sums = _log_suffix_sums(ranked, ranked_weight).gather(-1, order.first)
    return torch.zeros_like(sums).scatter(-1, order.places, sums)


def _log_suffix_sums(values: Tensor, weight: Tensor) -> Tensor:
    """``log sum_{k >= j} w_k exp(v_k)`` along the last dimension."""
    present = weight > 0
    if not is_traced():
        largest = torch.where(present, values.detach(), -torch.inf).amax(-1, keepdim=True).nan_to_num(neginf=0.0)
        sums = _suffix_sums(weight * torch.where(present, values - largest, 0.0).exp())
        nothing = _suffix_sums(weight) == 0
        if not bool(((sums < 1e-280) & ~nothing).any()):
            return torch.where(nothing, 1.0, sums).log() + largest
    # Nothing underflows here, at the price of an exponential and a logarithm for each step of the sum.
    logs = torch.where(present, values + torch.where(present, weight, 1.0).log(), torch.finfo(values.dtype).min)
    return logs.flip(-1).logcumsumexp(-1).flip(-1)


def _suffix_sums(values: Tensor) -> Tensor:
    return values.flip(-1).cumsum(-1).flip(-1)
