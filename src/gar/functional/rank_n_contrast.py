"""Rank-N-Contrast: features whose distances rank as the distances of labels do (Zha et al., NeurIPS 2023)."""

import torch
from torch import Tensor

from gar.functional._features import Order, Rows, as_rows, ascending, distances
from gar.functional._given_gradient import with_gradient
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
        tensor(0.3445)
    """

    def prepared(features: Tensor) -> tuple[Rows, float | Tensor, Order]:
        rows = as_rows(features, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
        per_model = parameter_like(temperature, rows.features.shape[:-2], rows.features, "temperature")
        per_model = per_model[..., None, None] if isinstance(per_model, Tensor) else per_model
        return rows, per_model, _by_label_distance(rows)

    def plain(features: Tensor) -> Tensor:
        return _plain(*prepared(features))

    def solve(features: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = _value_and_gradient(*prepared(features))
        return value, gradient[..., : features.shape[-2], :].to(features.dtype)

    return plain(features) if is_traced() else with_gradient(features, solve, plain)


def _plain(rows: Rows, temperature: float | Tensor, order: Order) -> Tensor:
    """The definition, as differentiable operations that never underflow."""
    similarity = -distances(rows.features) / temperature
    weight = rows.pair_weight()
    ranked, ranked_weight = similarity.gather(-1, order.places), weight.gather(-1, order.places)
    present = ranked_weight > 0
    logs = torch.where(present, ranked + torch.where(present, ranked_weight, 1.0).log(), torch.finfo(ranked.dtype).min)
    farther = logs.flip(-1).logcumsumexp(-1).flip(-1).gather(-1, order.first())
    return torch.where(present, _share_of_pairs(rows, order) * (farther - ranked), 0.0).sum((-2, -1))


def _by_label_distance(rows: Rows) -> Order:
    """Partners of every row from near to far in label. If all rows count once, a row itself is taken off its list."""
    gaps = rows.label_gaps()
    gaps = gaps.squeeze(-3) if gaps.shape[-3] == 1 else gaps.sum(-3)
    if not rows.uniform or is_traced():
        return ascending(gaps)
    gaps.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # so a row itself comes first
    return ascending(gaps).without_first()


def _value_and_gradient(rows: Rows, temperature: float | Tensor, order: Order) -> tuple[Tensor, Tensor]:
    """The loss and its gradient by the features.

    With partners in the order of their label distance, ``D_j`` the sum over those at least as far as j, and ``w_j`` how often j
    counts, the derivative by ``s_k`` is ``w_k exp(s_k) sum_{j: d_j <= d_k} w_j / D_j - w_k``: one more running sum.
    """
    dtype = rows.features.dtype
    distance = distances(rows.features)
    ranked = (distance / -temperature).gather(-1, order.places)
    share = _share_of_pairs(rows, order)
    largest = ranked.amax(-1, keepdim=True)
    below = ranked - largest
    power = below.exp()
    power = power if rows.uniform else power * rows.pair_weight().gather(-1, order.places)
    sums = _suffix_sums(power)
    sums = sums.gather(-1, order.first()) if order.tied else sums
    sums = sums if rows.uniform else torch.where(share > 0, sums, 1.0)
    if not float(sums.min()) > 1e10 * torch.finfo(dtype).tiny:  # so for NaN, too
        return _by_autograd(rows, temperature, order)
    value = _total(share, sums.log()) - _total(share, below)
    inverse = (share / sums).cumsum(-1)
    slopes = (inverse.gather(-1, order.last()) if order.tied else inverse).mul_(power).sub_(share)
    slopes = torch.zeros_like(distance).scatter_(-1, order.places, slopes)
    return value, _by_features(slopes, distance, rows.features) / -temperature


def _share_of_pairs(rows: Rows, order: Order) -> Tensor:
    """The part of each pair in the mean over pairs, in the order of partners."""
    if rows.uniform and not is_traced():
        n = rows.weight.shape[-1]
        return rows.weight.new_full((), 1.0 / (n * (n - 1)))
    pairs = (rows.weight.unsqueeze(-1) * rows.pair_weight()).gather(-1, order.places)
    count = pairs.sum((-2, -1), keepdim=True)
    return pairs / (count + (count == 0))


def _total(share: Tensor, values: Tensor) -> Tensor:
    """Sum over all pairs, each by its share, which may be one number."""
    return share * values.sum((-2, -1)) if share.ndim == 0 else (share * values).sum((-2, -1))


def _suffix_sums(values: Tensor) -> Tensor:
    return values.flip(-1).cumsum(-1).flip(-1)


def _by_features(slopes: Tensor, distance: Tensor, features: Tensor) -> Tensor:
    """From derivatives by distances to those by features: ``sum_j (g_ij + g_ji) (z_i - z_j) / |z_i - z_j|``."""
    pull = (slopes / distance).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)  # coincident rows do not pull
    pull = pull + pull.mT
    features = features - features.mean(-2, keepdim=True)
    return pull.sum(-1, keepdim=True) * features - pull @ features


def _by_autograd(rows: Rows, temperature: float | Tensor, order: Order) -> tuple[Tensor, Tensor]:
    """The slow road, for features so far apart that exponentials vanish, or for NaN."""
    with torch.enable_grad():
        leaf = rows.features.detach().requires_grad_()
        value = _plain(rows._replace(features=leaf), temperature, order)
        return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]
