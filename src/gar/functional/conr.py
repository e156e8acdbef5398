"""ConR: features of rows with near labels attract, of rows wrongly predicted alike repel (Keramati et al., ICLR 2024)."""

from __future__ import annotations  # torch.compile of PyTorch 2.6 does not trace those of inner functions

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.functional.custom_backward import with_custom_backward
from gar.functional.features import Cosines, FeatureRows, as_rows, gaps, join_batch, parameter_of_pairs, quick_exp_, unit_rows
from gar.validation import NanPolicy, check_parameter, checked_pair, in_full_precision, is_traced, needs_derivative

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


@in_full_precision
def conr_loss(
    features: Tensor,
    pred: Tensor,
    target: Tensor,
    *,
    window: float = 1.0,
    temperature: float | Tensor = 0.07,
    eta: float = 0.01,
    count_excluded: bool = False,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
    process_group: ProcessGroup | None = None,
) -> Tensor:
    r"""Return a contrastive regulariser in feature space, with positives by label and negatives by prediction.

    .. math:: C_i = -\frac1{|P_i|} \sum_{p \in P_i} \log \frac{e(q_i q_p)}
        {\sum_{P_i} e(q_i q_{p'}) + \sum_{n \in N_i} e^{\eta |y_i - y_n|} e(q_i q_n)}, \quad e(x) = e^{x / t}

    Positives of i have a label within ``window`` of its own; negatives do not, but are predicted within ``window`` of its
    prediction. Distances are means over targets; ``q`` are features of length one. The result is the mean over rows, where a row
    without positives or without negatives gives 0.

    Args:
        features: ``(..., batch, dim)``; leading dimensions are independent models.
        pred: ``(batch,)`` or ``(..., batch, targets)``; only compared with ``window``, so it gets no gradient.
        target: labels, of the shape of ``pred``. Models that share labels are quicker with ``target.expand_as(pred)`` than with
            copies.
        window: which labels, and which predictions, count as near.
        temperature: a number > 0 or one value per model.
        eta: how much more a negative with a far label counts.
        count_excluded: True adds 1 to the denominator for every row that is no positive, as the published code does by masking
            before it takes the exponential.
        sample_weight: how often each row counts, ``(..., batch)``.
        mask: True where a row counts, ``(..., batch)``.
        nan_policy: as in :func:`gar.functional.gar_loss`; ``"omit"`` leaves out rows that lack a label.
        process_group: ``"world"`` or a group: the loss of the joined batch of its ranks, exact for any shards. Rows of all ranks
            are exchanged, and each rank computes all pairs. Made for DistributedDataParallel, which averages gradients.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
        >>> conr_loss(features, torch.zeros(3), torch.tensor([0.0, 0.5, 3.0]), temperature=1.0)
        tensor(0.4672)
    """
    if process_group is not None:
        features, target, sample_weight, mask, pred = join_batch(process_group, features, target, sample_weight, mask, pred)
    pred, _ = checked_pair(pred, target)
    window = check_parameter(window, "window", open_end=False)
    label_pairs = partial(_label_pairs, window=window, eta=eta, count_excluded=count_excluded)

    def checked(features: Tensor) -> tuple[FeatureRows, Tensor, float | Tensor]:
        rows = as_rows(features, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
        return rows, _predictions(pred, features, rows), parameter_of_pairs(temperature, rows, "temperature")

    def plain(features: Tensor) -> Tensor:
        rows, predictions, strength = checked(features)
        return _plain(rows, label_pairs(rows), predictions, strength, window)

    def solve(features: Tensor) -> tuple[Tensor, Tensor]:
        rows, predictions, strength = checked(features)
        value, gradient = rows.features.new_empty(rows.features.shape[:-2]), torch.empty_like(rows.features)
        for index, mine, pairs in rows.model_by_model(label_pairs):
            one = strength[index] if isinstance(strength, Tensor) else strength
            value[index], gradient[index] = _value_and_gradient(mine, pairs, predictions[index], one, window)
        return value, gradient[..., : features.shape[-2], :].to(features.dtype)

    if is_traced() or needs_derivative(target, sample_weight, temperature):  # the closed form gives that of features alone
        return plain(features)
    return with_custom_backward(features, solve, plain)


class _LabelPairs(NamedTuple):
    """What follows from labels alone for pairs, ``(..., n, n)``, and for rows, ``(..., n, 1)``."""

    positive: Tensor
    """The share of each positive in the mean over positives."""
    near: Tensor
    """1 for positives."""
    far: Tensor
    """1 for pairs that are negatives if they are predicted alike."""
    log_weight: Tensor
    """Logarithm of the factor of a pair in the denominator, if it counts."""
    log_others: Tensor | None
    """Logarithm of what rows that are no positives add to the denominator."""
    share: Tensor
    """The share of each row in the mean over rows, 0 for a row without positives."""


def _label_pairs(rows: FeatureRows, *, window: float, eta: float, count_excluded: bool) -> _LabelPairs:
    gap, weight = rows.label_gaps().mean(-3), rows.pair_weight()
    present, within = weight > 0, gap <= window
    near, far = ((present & side).to(gap.dtype) for side in (within, ~within))
    positive = near * weight
    positives, size = positive.sum(-1, keepdim=True), rows.size()[..., None, None]
    return _LabelPairs(
        positive=positive / (positives + (positives == 0)),
        near=near,
        far=far,
        log_weight=far * (eta * gap) + torch.where(present, weight, 1.0).log(),
        log_others=(size - positives).clamp(min=0.0).log() if count_excluded else None,
        share=rows.weight.unsqueeze(-1) * (positives > 0) / (size + (size == 0)),
    )


def _predictions(pred: Tensor, features: Tensor, rows: FeatureRows) -> Tensor:
    """Return predictions in the shape of labels, with the row that stands for an empty batch if there is one."""
    pred = pred.detach().reshape(*features.shape[:-1], rows.target.shape[-1])
    return pad(pred, (0, 0, 0, rows.weight.shape[-1] - pred.shape[-2]))


def _negatives(pairs: _LabelPairs, pred: Tensor, window: float) -> Tensor:
    """Return 1 for pairs with far labels that are predicted alike, else 0."""
    gap = gaps(pred).mean(-3)
    alike = gap <= window if is_traced() else gap.le_(window)  # into floats: on a CPU much quicker than into booleans
    return alike * pairs.far


def _without(shifted: Tensor, left_out: Tensor) -> Tensor:
    """Make values very low where ``left_out`` is 1, but finite: times zero they are zero."""
    return shifted + left_out * (torch.finfo(shifted.dtype).min / 8)


def _plain(rows: FeatureRows, pairs: _LabelPairs, pred: Tensor, temperature: float | Tensor, window: float) -> Tensor:
    """Evaluate the definition as differentiable operations."""
    unit = unit_rows(rows.features)
    logits = (unit @ unit.mT) / temperature
    negative = _negatives(pairs, pred, window)
    shifted = _without(logits + pairs.log_weight, 1.0 - pairs.near - negative)
    shifted = shifted if pairs.log_others is None else torch.cat([shifted, pairs.log_others], -1)
    share = pairs.share.squeeze(-1) * (negative.sum(-1) > 0)
    return (share * (shifted.logsumexp(-1) - (pairs.positive * logits).sum(-1))).sum(-1)


def _value_and_gradient(
    rows: FeatureRows, pairs: _LabelPairs, pred: Tensor, temperature: float | Tensor, window: float
) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient by the features.

    The gradient by a logit is the share of its pair in the denominator less that of a positive.
    """
    cosines = Cosines(rows.features)
    logits = cosines.values.div_(temperature)
    negative = _negatives(pairs, pred, window)
    counted = pairs.near + negative
    shifted = _without(logits + pairs.log_weight, 1.0 - counted)
    largest = shifted.amax(-1, keepdim=True)
    largest = largest if pairs.log_others is None else torch.maximum(largest, pairs.log_others)
    power = quick_exp_(shifted.sub_(largest)).mul_(counted)
    share = pairs.share * (negative.sum(-1, keepdim=True) > 0)
    total = power.sum(-1, keepdim=True) + (share == 0)  # a row without a share may have no pairs at all
    total = total if pairs.log_others is None else total + (pairs.log_others - largest).exp()
    nearness = (pairs.positive * logits).sum(-1, keepdim=True)
    value = (share * (largest + total.log() - nearness)).sum((-2, -1))
    slopes = power.mul_(share / total).sub_(pairs.positive * share)
    return value, cosines.by_features(slopes.div_(temperature))
