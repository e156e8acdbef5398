"""Metrics within groups: of each day, patient or basin, and then the mean over groups."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from gar.functional.formulas import TENSORS, Moments, Spreads, concordance, kling_gupta, nash_sutcliffe, one_minus_pearson
from gar.functional.grouped import Formula, GroupMoments
from gar.functional.pairwise import ascending_in_groups
from gar.groups import ALL_ROWS
from gar.validation import Columns, as_columns


def within_groups(
    pred: Tensor, target: Tensor, groups: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the means over groups of Pearson, Spearman, Nash-Sutcliffe, Kling-Gupta (2009) and concordance; larger is better.

    Shapes, masks and weights are those of :mod:`gar.metrics`, and several targets are averaged. A group whose labels are constant
    does not count, and no group that counts gives NaN. Constant predictions have a correlation of 0.

    Args:
        pred: predictions, ``(batch,)`` or ``(..., batch, targets)``.
        target: labels, of that shape or ``(batch, targets)``; NaN is left out.
        groups: a whole number for every row, ``(batch,)``.
        mask: True where a label counts.
        weight: how often each row counts.

    Example:
        >>> days = torch.tensor([0, 0, 0, 1, 1, 1])
        >>> pred, target = torch.tensor([1.0, 2.0, 3.0, 9.0, 8.0, 7.0]), torch.tensor([1.0, 2.0, 4.0, 0.0, 1.0, 2.0])
        >>> round(float(within_groups(pred, target, days)["pearson"]), 4)
        -0.009
    """
    target = target.double().expand(pred.shape)
    if weight is not None and pred.ndim > 1:
        weight = weight.expand(pred.shape[:-1])
    columns = as_columns(pred.double(), target, sample_weight=weight, mask=mask, nan_policy="omit", groups=groups)
    columns = Columns(columns.pred.detach(), *columns[1:])
    ranked = Columns(_ranks(columns.pred, columns), _ranks(columns.target, columns), *columns[2:])
    of_values, of_ranks = (GroupMoments(one, "mean", eps=0.0) for one in (columns, ranked))
    formulas: dict[str, tuple[GroupMoments, Formula]] = {
        "pearson": (of_values, _pearson),
        "spearman": (of_ranks, _pearson),
        "nash_sutcliffe": (of_values, lambda m, spreads: nash_sutcliffe(m, spreads, xp=TENSORS)),
        "kling_gupta": (of_values, lambda m, spreads: kling_gupta(m, spreads, xp=TENSORS)),
        "concordance": (of_values, lambda m, _: concordance(m, eps=0.0, xp=TENSORS)),
    }
    return {name: 1.0 - m.over_columns(m.mean(formula, undefined=torch.nan)) for name, (m, formula) in formulas.items()}


def _pearson(m: Moments, spreads: Spreads) -> Tensor:
    return one_minus_pearson(m, spreads, xp=TENSORS)  # type: ignore[no-any-return]


def _ranks(values: Tensor, columns: Columns) -> Tensor:
    """Return the rank of every value in its group, counted with weights; equal values share the mean of their ranks."""
    order, _, same_group, same_value = ascending_in_groups(values, columns.groups or ALL_ROWS)
    weight = torch.ones_like(values) if columns.weight is None else columns.weight
    prefix = pad(weight.gather(-1, order).cumsum(-1), (1, 0))
    ends = prefix.gather(-1, same_value.first()) + prefix.gather(-1, same_value.last() + 1)
    ranks = 0.5 * ends - prefix.gather(-1, same_group.first())
    ranks = ranks.where(values.gather(-1, order).isfinite(), torch.nan)
    return torch.zeros_like(values).scatter(-1, order, ranks)
