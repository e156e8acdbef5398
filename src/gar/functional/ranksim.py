"""RankSim: neighbours in feature space should rank as neighbours in label space (Gong et al., ICML 2022)."""

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gar.distributed import shared_generator
from gar.errors import InputError
from gar.functional.custom_backward import VectorJacobian, with_custom_backward
from gar.functional.features import Cosines, FeatureRows, as_rows, join_batch, parameter_of_pairs, unit_rows
from gar.functional.sorting import ascending
from gar.validation import NanPolicy, can_be_read, in_full_precision, is_exported

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


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
    process_group: "ProcessGroup | None" = None,
) -> Tensor:
    r"""Return the squared difference of two rankings of the batch, by feature and by label, seen from every row.

    .. math:: \sum_i \mathrm{mean}_j \left( rk(S_i)_j - rk(-|y_i - y|)_j \right)^2

    ``S`` is the cosine similarity of features, ``rk`` the rank from the top over the number of rows. Of rows with equal labels
    one, chosen at random, takes part; models that share labels share the choice. Ranks are piecewise constant, so their
    derivative is that of a black-box interpolation: an incoming gradient ``g`` gives
    :math:`-(rk(S) - rk(S + \lambda g)) / \lambda`.

    Args:
        features: ``(..., batch, dim)``; leading dimensions are independent models.
        target: ``(batch,)`` or ``(..., batch, targets)``; several targets are averaged. Models that share labels are quicker with
            ``target.expand(models, batch, targets)`` than with copies.
        interpolation: :math:`\lambda > 0`, a number or one value per model.
        generator: source of the random choice; None is torch's own. With one, ``torch.compile(fullgraph=True)`` is an error: a
            generator is not traced.
        sample_weight: rows with weight 0 are left out; copies of a row change nothing, as equal labels take part once.
        mask: True where a row takes part, ``(..., batch)``.
        nan_policy: as in :func:`gar.functional.gar_loss`; ``"omit"`` leaves out rows that lack a label.
        process_group: ``"world"`` or a group: the loss of the joined batch of its ranks, exact for any shards. Rows of all ranks
            are exchanged, and each rank computes all pairs. Made for DistributedDataParallel, which averages gradients.

    Returns:
        One value per model; 0 if fewer than two rows take part.

    Under ``torch.func.vmap`` the random choice needs ``randomness="different"`` or ``"same"``, even where all labels differ. Ranks
    have no forward-mode derivative.

    Example:
        >>> ranksim_loss(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([0.0, 1.0, 2.0]))
        tensor(0.1481)
    """
    if is_exported():
        raise InputError(
            "an exported program would lose the gradient of RankSim, which is that of a black-box interpolation; "
            "export the model without this loss"
        )
    if process_group is not None:
        features, target, sample_weight, mask = join_batch(process_group, features, target, sample_weight, mask)
        generator = shared_generator(generator, process_group, features.device)
    rows = as_rows(features, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    strength = parameter_of_pairs(interpolation, rows, "interpolation")
    models = rows.features.shape[:-2]
    if not can_be_read(features) or models.numel() == 0:
        return _stack_loss(rows, strength, generator)
    values = [
        _model_loss(mine.features, anchors, strength[index] if isinstance(strength, Tensor) else strength)
        for index, mine, anchors in rows.model_by_model(lambda labels: _anchors(labels, generator))
    ]
    return torch.stack(values).reshape(models)


class _Anchors(NamedTuple):
    """What follows from labels alone: the rows that take part, None for all; their ranks by label ``(n, n)``, averaged over
    targets; and the sum of squares of single targets about that mean."""

    rows: Tensor | None
    ranks: Tensor
    spread: Tensor


def _anchors(labels: FeatureRows, generator: torch.Generator | None) -> _Anchors:
    gaps = labels.label_gaps()
    chosen = _one_per_label(gaps, labels.weight > 0, generator)
    rows = None if bool(chosen.all()) else chosen.nonzero().squeeze(-1)
    ranks = _ranks(gaps if rows is None else gaps[:, rows[:, None], rows])
    mean = ranks.mean(0)
    return _Anchors(rows, mean, (ranks - mean).square().sum((-2, -1)).mean())


def _model_loss(features: Tensor, anchors: _Anchors, strength: float | Tensor) -> Tensor:
    """Return the loss of one model, whose rows that take no part are removed first."""
    features = features if anchors.rows is None else features[anchors.rows]
    n = max(len(features), 1)

    def plain(features: Tensor) -> Tensor:
        unit = unit_rows(features)
        ranks: Tensor = _Ranking.apply(unit @ unit.mT, None, strength)  # type: ignore[no-untyped-call]
        return ((ranks - anchors.ranks).square().sum() + anchors.spread) / n

    def solve(features: Tensor) -> tuple[Tensor, VectorJacobian]:
        cosines = Cosines(features)
        ranks = _ranks(-cosines.values)

        def vector_jacobian(outer: Tensor) -> Tensor:
            incoming = (ranks - anchors.ranks).mul_(2.0 / n * outer * strength)
            moved = _ranks(incoming.add_(cosines.values).neg_())
            return cosines.by_features(moved.sub_(ranks).div_(strength))

        return ((ranks - anchors.ranks).square_().sum() + anchors.spread) / n, vector_jacobian

    return with_custom_backward(features, solve, plain)


def _stack_loss(rows: FeatureRows, strength: float | Tensor, generator: torch.Generator | None) -> Tensor:
    """Return the loss of all models at once, where values cannot be inspected or loops are slow."""
    gaps = rows.label_gaps()
    chosen = _one_per_label(gaps, rows.weight > 0, generator)
    unit = unit_rows(rows.features)
    by_feature: Tensor = _Ranking.apply(unit @ unit.mT, chosen, strength)  # type: ignore[no-untyped-call]
    squares = (by_feature.unsqueeze(-3) - _ranks(gaps, chosen.unsqueeze(-2))).square()
    squares = torch.where((chosen.unsqueeze(-1) & chosen.unsqueeze(-2)).unsqueeze(-3), squares, 0.0)
    return squares.sum((-2, -1)).mean(-1) / chosen.sum(-1).clamp(min=1)


def _one_per_label(gaps: Tensor, counts: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return a mask ``(..., n)`` of one row, drawn at random, for every distinct label of rows that count."""
    same = (gaps == 0).all(-3) & counts.unsqueeze(-2) & counts.unsqueeze(-1)
    if can_be_read(same) and int(same.sum()) == int(counts.sum()):
        return counts
    draw = torch.rand(counts.shape, generator=generator, device=counts.device).argsort(-1)  # all different
    return counts & ~(same & (draw.unsqueeze(-2) > draw.unsqueeze(-1))).any(-1)


def _ranks(keys: Tensor, chosen: Tensor | None = None) -> Tensor:
    """Return ``(1 + number of smaller keys) / n`` along the last dimension, among the chosen rows ``(..., n)``."""
    counts = torch.arange(1, keys.shape[-1] + 1, dtype=keys.dtype, device=keys.device)
    if chosen is None:
        return ascending(keys).assign(counts / keys.shape[-1])
    ranks = ascending(torch.where(chosen.unsqueeze(-2), keys, torch.inf)).assign(counts)
    return ranks / chosen.sum(-1)[..., None, None].clamp(min=1)


class _Ranking(torch.autograd.Function):
    """Ranks from the largest similarity down, with the derivative of a black-box interpolation."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, chosen: Tensor | None, strength: float | Tensor) -> Tensor:
        return _ranks(-values, chosen)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor | None, float | Tensor], output: Tensor) -> None:
        values, chosen, strength = inputs
        per_model = isinstance(strength, Tensor)
        ctx.save_for_backward(values, chosen, output, strength if per_model else None)
        ctx.strength = None if per_model else strength

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        values, chosen, ranks, per_model = ctx.saved_tensors
        strength = ctx.strength if per_model is None else per_model
        return (_ranks(-(values + strength * outer), chosen) - ranks) / strength, None, None
