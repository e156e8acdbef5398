"""ConR: features of rows with near labels attract, of rows wrongly predicted alike repel (Keramati et al., ICLR 2024)."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.functional._features import Rows, as_rows, gaps, unit_rows
from gar.functional._inputs import NanPolicy, check_parameter, checked_pair, in_full_precision, parameter_like


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
) -> Tensor:
    r"""Contrastive regulariser in feature space, with positives by label and negatives by prediction.

    .. math:: C_i = -\frac1{|P_i|} \sum_{p \in P_i} \log \frac{e(q_i q_p)}
        {\sum_{P_i} e(q_i q_{p'}) + \sum_{n \in N_i} e^{\eta |y_i - y_n|} e(q_i q_n)}, \quad e(x) = e^{x / t}

    Positives of i have a label within ``window`` of its own; negatives do not, but are predicted within ``window`` of its
    prediction. Distances are means over targets; ``q`` are features of length one. The result is the mean over rows, where a row
    without positives or without negatives gives 0.

    Args:
        features: ``(..., batch, dim)``; leading dimensions are independent models.
        pred: ``(batch,)`` or ``(..., batch, targets)``; only compared with ``window``, so it gets no gradient.
        target: labels, of the shape of ``pred``.
        window: which labels, and which predictions, count as near.
        temperature: a number > 0 or one value per model.
        eta: how much more a negative with a far label counts.
        count_excluded: True adds 1 to the denominator for every row that is no positive, as the published code does by masking
            before it takes the exponential.
        sample_weight: how often each row counts, ``(..., batch)``.
        mask: True where a row counts, ``(..., batch)``.
        nan_policy: as in :func:`gar.functional.gar_loss`; ``"omit"`` leaves out rows that lack a label.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
        >>> conr_loss(features, torch.zeros(3), torch.tensor([0.0, 0.5, 3.0]), temperature=1.0)
        tensor(0.4672)
    """
    pred, _ = checked_pair(pred, target)
    check_parameter(window, "window", open_end=False)
    rows = as_rows(features, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    temperature = parameter_like(temperature, rows.features.shape[:-2], rows.features, "temperature")
    temperature = temperature[..., None, None] if isinstance(temperature, Tensor) else temperature
    label_gap, pred_gap = rows.label_gaps().mean(-3), _prediction_gaps(pred, features, rows)
    weight = rows.pair_weight()
    positive = torch.where(label_gap <= window, weight, 0.0)
    negative = torch.where((label_gap > window) & (pred_gap <= window), weight, 0.0)
    unit = unit_rows(rows.features)
    logits = (unit @ unit.mT) / temperature
    others = rows.size[..., None] - positive.sum(-1) if count_excluded else None
    denominator = _log_denominator(logits, positive, negative, eta * label_gap, others)
    positives = positive.sum(-1)
    mean_positive = (positive * logits).sum(-1) / (positives + (positives == 0))
    counted = (positives > 0) & ((negative > 0).any(-1))
    per_row = torch.where(counted, denominator - mean_positive, 0.0)
    return (rows.weight * per_row).sum(-1) / (rows.size + (rows.size == 0))


def _prediction_gaps(pred: Tensor, features: Tensor, rows: Rows) -> Tensor:
    """Distances of predictions, with the row that stands for an empty batch if there is one."""
    pred = pred.detach().reshape(*features.shape[:-1], rows.target.shape[-1])
    return gaps(pad(pred, (0, 0, 0, rows.weight.shape[-1] - pred.shape[-2]))).mean(-3)


def _log_denominator(logits: Tensor, positive: Tensor, negative: Tensor, push: Tensor, others: Tensor | None) -> Tensor:
    """Logarithm of the weighted sum of exponentials over positives and negatives; 0 where there is neither."""
    weight = positive + negative
    present = weight > 0
    shifted = logits + torch.where(negative > 0, push, 0.0) + torch.where(present, weight, 1.0).log()
    shifted = torch.where(present, shifted, -torch.inf)
    if others is not None:
        shifted = torch.cat([shifted, others.unsqueeze(-1).log()], -1)
    empty = ~(shifted > -torch.inf).any(-1, keepdim=True) & ~shifted.isnan().any(-1, keepdim=True)
    return torch.where(empty, 0.0, shifted).logsumexp(-1)
