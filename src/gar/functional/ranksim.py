"""RankSim: neighbours in feature space should rank as neighbours in label space (Gong et al., ICML 2022)."""

from typing import Any

import torch
from torch import Tensor

from gar.functional._features import Rows, as_rows, ascending, unit_rows
from gar.functional._inputs import NanPolicy, in_full_precision, is_traced, parameter_like


@in_full_precision
def ranksim_loss(
    features: Tensor,
    target: Tensor,
    *,
    interpolation: float | Tensor = 1.0,
    generator: torch.Generator | None = None,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
) -> Tensor:
    r"""Squared difference of two rankings of the batch, by feature and by label, seen from every row.

    .. math:: \sum_i \mathrm{mean}_j \left( rk(S_i)_j - rk(-|y_i - y|)_j \right)^2

    ``S`` is the cosine similarity of features, ``rk`` the place from the top over the number of rows. Of rows with equal labels
    one, chosen at random, takes part. Ranks are piecewise constant, so their derivative is that of a black-box interpolation: an
    incoming gradient ``g`` gives :math:`-(rk(S) - rk(S + \lambda g)) / \lambda`.

    Args:
        features: ``(..., batch, dim)``; leading dimensions are independent models.
        target: ``(batch,)`` or ``(..., batch, targets)``; several targets are averaged.
        interpolation: :math:`\lambda > 0`, a number or one value per model.
        generator: source of the random choice.
        sample_weight: rows with weight 0 are left out; copies of a row change nothing, as equal labels take part once.
        mask: True where a row takes part, ``(..., batch)``.
        nan_policy: as in :func:`gar.functional.gar_loss`; ``"omit"`` leaves out rows that lack a label.

    Returns:
        One value per model; 0 if fewer than two rows take part.

    Example:
        >>> ranksim_loss(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([0.0, 1.0, 2.0]))
        tensor(0.1481)
    """
    rows = as_rows(features, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    interpolation = parameter_like(interpolation, rows.features.shape[:-2], rows.features, "interpolation")
    strength = interpolation[..., None, None] if isinstance(interpolation, Tensor) else interpolation
    gaps = rows.label_gaps()
    chosen = _one_per_label(gaps, rows, generator)
    unit = unit_rows(rows.features)
    by_feature: Tensor = _Ranking.apply(unit @ unit.mT, chosen, strength)  # type: ignore[no-untyped-call]
    by_label = _places(gaps, None if chosen is None else chosen.unsqueeze(-2))
    squares = (by_feature.unsqueeze(-3) - by_label).square()
    if chosen is None:
        return squares.sum((-2, -1)).mean(-1) / gaps.shape[-1]
    squares = torch.where((chosen.unsqueeze(-1) & chosen.unsqueeze(-2)).unsqueeze(-3), squares, 0.0)
    return squares.sum((-2, -1)).mean(-1) / chosen.sum(-1).clamp(min=1)


def _one_per_label(gaps: Tensor, rows: Rows, generator: torch.Generator | None) -> Tensor | None:
    """A mask ``(..., n)`` of one row, drawn at random, for every distinct label; None if that is known to be all rows."""
    same = (gaps == 0).all(-3)
    if rows.uniform and not is_traced() and int(same.sum()) == rows.weight.numel():
        return None
    counts = rows.weight > 0
    draw = torch.rand(rows.weight.shape, generator=generator, device=rows.weight.device).argsort(-1)  # all different
    beaten = same & counts.unsqueeze(-2) & (draw.unsqueeze(-2) > draw.unsqueeze(-1))
    return counts & ~beaten.any(-1)


def _places(keys: Tensor, chosen: Tensor | None) -> Tensor:
    """``(1 + number of smaller keys) / n`` along the last dimension, among the chosen rows ``(..., n)``."""
    count: int | Tensor = keys.shape[-1]
    if chosen is not None:
        keys = torch.where(chosen.unsqueeze(-2), keys, torch.inf)
        count = chosen.sum(-1)[..., None, None].clamp(min=1)
    order = ascending(keys)
    first = order.first() if order.tied else order.first()[..., :1, :]  # without ties all rows count alike
    place = ((first + 1).to(keys.dtype) / count).expand(keys.shape)
    return torch.empty_like(keys).scatter(-1, order.places, place)


class _Ranking(torch.autograd.Function):
    """Places from the largest similarity down, with the derivative of a black-box interpolation."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, chosen: Tensor | None, strength: float | Tensor) -> Tensor:
        return _places(-values, chosen)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor | None, float | Tensor], output: Tensor) -> None:
        values, chosen, strength = inputs
        per_model = isinstance(strength, Tensor)
        ctx.save_for_backward(values, chosen, output, strength if per_model else None)
        ctx.strength = None if per_model else strength

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        values, chosen, places, per_model = ctx.saved_tensors
        strength = ctx.strength if per_model is None else per_model
        return (_places(-(values + strength * outer), chosen) - places) / strength, None, None
