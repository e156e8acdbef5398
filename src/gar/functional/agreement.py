"""Losses of agreement between predictions and labels: Pearson, concordance, Nash-Sutcliffe, Kling-Gupta and Norm-in-Norm.

All but Norm-in-Norm are formulas over the moments of :mod:`gar.functional.moments`. They take the shapes, weights, masks, groups
and processes of :func:`gar.functional.gar_loss`: the loss of each target, or its mean over groups, then the mean over targets. With
pooled groups variances and covariances are of values minus the mean of their group, and means are those of all rows.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from gar.errors import InputError
from gar.functional.formulas import TENSORS, Moments, Spreads, concordance, kling_gupta, nash_sutcliffe, one_minus_pearson
from gar.functional.grouped import Formula, GroupExchange, GroupMoments, GroupReduction
from gar.functional.pairwise import GroupPowers
from gar.validation import Columns, NanPolicy, as_columns, can_be_read, check_choice, check_eps, check_parameter, in_full_precision

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup

KlingGupta = Literal["2009", "2012"]
Level = Literal["ratio", "deviation"]


def pearson_loss(
    pred: Tensor,
    target: Tensor,
    *,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
    group_reduction: GroupReduction = "pooled",
    nan_policy: NanPolicy = "raise",
    eps: float = 1e-7,
    process_group: "ProcessGroup | None" = None,
) -> Tensor:
    r"""Return :math:`1 - \rho`, from 0 to 2; 1, without gradient, where predictions or labels are constant.

    It is invariant to the level and the scale of predictions, which it leaves free: use it beside another loss, or rescale.

    Example:
        >>> pearson_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.0180)
    """

    def formula(m: Moments, spreads: Spreads) -> Tensor:
        return one_minus_pearson(m, spreads, xp=TENSORS)  # type: ignore[no-any-return]

    batch = _Batch(pred, target, sample_weight, mask, groups, nan_policy)
    return _mean_of(formula, batch, group_reduction, eps, process_group)


def concordance_loss(
    pred: Tensor,
    target: Tensor,
    *,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
    group_reduction: GroupReduction = "pooled",
    nan_policy: NanPolicy = "raise",
    eps: float = 1e-7,
    process_group: "ProcessGroup | None" = None,
) -> Tensor:
    r"""Return one minus Lin's concordance, the correlation that also asks for the level and the scale of the labels.

    .. math:: 1 - \frac{2 c}{v_f + v_y + (m_f - m_y)^2} = \frac{\mathrm{MSE}}{v_f + v_y + (m_f - m_y)^2}

    with means m, variances v and the covariance c. 0 where all predictions and labels are equal.

    Example:
        >>> concordance_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.1429)
    """

    def formula(m: Moments, _: Spreads) -> Tensor:
        return concordance(m, eps=eps, xp=TENSORS)  # type: ignore[no-any-return]

    batch = _Batch(pred, target, sample_weight, mask, groups, nan_policy)
    return _mean_of(formula, batch, group_reduction, eps, process_group)


def nash_sutcliffe_loss(
    pred: Tensor,
    target: Tensor,
    *,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
    group_reduction: GroupReduction = "pooled",
    nan_policy: NanPolicy = "raise",
    eps: float = 1e-7,
    process_group: "ProcessGroup | None" = None,
) -> Tensor:
    r"""Return one minus the efficiency of Nash and Sutcliffe, which is :math:`R^2`: the squared error over the variance of labels.

    1, without gradient, where labels are constant. With groups and ``group_reduction="mean"`` every basin counts alike, whatever
    the variance of its flow.

    Example:
        >>> nash_sutcliffe_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.5000)
    """

    def formula(m: Moments, spreads: Spreads) -> Tensor:
        return nash_sutcliffe(m, spreads, xp=TENSORS)  # type: ignore[no-any-return]

    batch = _Batch(pred, target, sample_weight, mask, groups, nan_policy)
    return _mean_of(formula, batch, group_reduction, eps, process_group)


def kling_gupta_loss(
    pred: Tensor,
    target: Tensor,
    *,
    variant: KlingGupta = "2009",
    level: Level = "ratio",
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
    group_reduction: GroupReduction = "pooled",
    nan_policy: NanPolicy = "raise",
    eps: float = 1e-7,
    process_group: "ProcessGroup | None" = None,
) -> Tensor:
    r"""Return one minus the efficiency of Kling and Gupta: correlation, scale and level, as one distance.

    .. math:: \sqrt{(\rho - 1)^2 + (s_f / s_y - 1)^2 + (m_f / m_y - 1)^2}

    Args:
        pred: predictions.
        target: labels. With ``level="ratio"`` a mean near 0 is an error, where values can be read.
        variant: ``"2009"``, or ``"2012"``, which compares coefficients of variation, :math:`(s_f / m_f) / (s_y / m_y)`, instead of
            standard deviations.
        level: ``"ratio"``, or ``"deviation"``, which asks for :math:`(m_f - m_y) / s_y` and needs no mean away from 0.
        sample_weight: see :func:`gar.functional.gar_loss`, as for the other arguments.
        mask: where labels count.
        groups: of rows; for a loss per basin use ``group_reduction="mean"``.
        group_reduction: ``"pooled"`` or ``"mean"``.
        nan_policy: what a NaN label means.
        eps: standard deviations below it count as zero.
        process_group: for the joined batch of all processes.

    Constant labels give 1 without gradient.

    Example:
        >>> kling_gupta_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.5535)
    """
    check_choice(variant, ("2009", "2012"), "variant")
    check_choice(level, ("ratio", "deviation"), "level")

    def formula(m: Moments, spreads: Spreads) -> Tensor:
        return kling_gupta(m, spreads, variant=variant, level=level, xp=TENSORS)  # type: ignore[no-any-return]

    if (variant, level) == ("2012", "deviation"):
        raise InputError("variant='2012' compares coefficients of variation, which divide by means: it needs level='ratio'")
    batch = _Batch(pred, target, sample_weight, mask, groups, nan_policy)
    return _mean_of(formula, batch, group_reduction, eps, process_group, check=_check_level if level == "ratio" else None)


def norm_in_norm_loss(
    pred: Tensor,
    target: Tensor,
    *,
    p: float = 1.0,
    q: float = 2.0,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
    group_reduction: GroupReduction = "pooled",
    nan_policy: NanPolicy = "raise",
    eps: float = 1e-7,
    process_group: "ProcessGroup | None" = None,
) -> Tensor:
    r"""Return the p-norm of the difference of values that are centred and divided by their q-norm (Li, Jiang and Jiang 2020).

    .. math:: \frac1p \mathrm{mean} \left| \frac{f - m_f}{\|f - m_f\|_q} - \frac{y - m_y}{\|y - m_y\|_q} \right|^p, \quad
        \|x\|_q = (\mathrm{mean} |x|^q)^{1/q}

    Norms are means over rows, so that the loss does not depend on their number; ``p = q = 2`` is 1 - Pearson's correlation. Where
    predictions or labels are constant it is ``2 / p`` without gradient. With ``process_group`` every rank gets the rows of all.

    Example:
        >>> norm_in_norm_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]), p=2.0)
        tensor(0.0180)
    """
    p, q, eps = check_exponent(p, "p"), check_exponent(q, "q"), check_eps(eps)
    check_choice(group_reduction, ("pooled", "mean"), "group_reduction")
    batch = _Batch(pred, target, sample_weight, mask, groups, nan_policy)
    if process_group is not None:
        from gar.functional.exchange import join_batch_rows

        joined: _Joined = join_batch_rows(process_group, *batch[:5], batch.columns)
        batch = _Batch(*joined, nan_policy)
    return _norm_in_norm(batch, p, q, group_reduction, eps)


@in_full_precision
def _norm_in_norm(batch: "_Batch", p: float, q: float, group_reduction: GroupReduction, eps: float) -> Tensor:
    columns = batch.columns()
    rows = GroupPowers(columns, group_reduction, eps)
    pred, pred_spreads = rows.normalised(columns.pred, q, rows.power_mean)
    target, target_spreads = rows.normalised(columns.target, q, rows.power_mean)
    loss = rows.reduced(rows.power_mean(pred - target, p) / p)
    loss = rows.over_groups(torch.where(pred_spreads & target_spreads, loss, 2.0 / p), undefined=2.0 / p)
    return columns.over_columns(loss).to(columns.pred.dtype)


_Joined = tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]


class _Batch(NamedTuple):
    pred: Tensor
    target: Tensor
    sample_weight: Tensor | None
    mask: Tensor | None
    groups: Tensor | None
    nan_policy: NanPolicy

    def columns(self) -> Columns:
        return as_columns(
            self.pred,
            self.target,
            sample_weight=self.sample_weight,
            mask=self.mask,
            nan_policy=self.nan_policy,
            groups=self.groups,
        )


@in_full_precision
def _mean_of(
    formula: Formula,
    batch: _Batch,
    group_reduction: GroupReduction,
    eps: float,
    process_group: "ProcessGroup | None",
    check: Callable[[GroupMoments], None] | None = None,
) -> Tensor:
    """Return a formula over the moments of a batch, or of the joined batch of all processes."""
    check_choice(group_reduction, ("pooled", "mean"), "group_reduction")
    eps = check_eps(eps)

    def value(exchange_of: Callable[[Columns], GroupExchange] | None = None) -> Tensor:
        columns = batch.columns()
        m = GroupMoments(columns, group_reduction, eps=eps, exchange=exchange_of and exchange_of(columns))
        if check is not None:
            check(m)
        return m.over_columns(m.mean(formula, undefined=1.0))

    if process_group is None:
        return value()
    from gar.functional.exchange import moments_over_group  # it imports all of PyTorch's compiler, a second or two

    return moments_over_group(value, *batch[:3], batch.groups, process_group)  # type: ignore[no-any-return]


def _check_level(found: GroupMoments) -> None:
    """Raise for labels whose mean is near 0 against their standard deviation."""
    m, labels = found.moments, found.spreads.labels
    if not can_be_read(m.size):
        return
    near = labels & (m.mean_target.square() * m.size <= 1e-12 * m.target)
    if bool(near.any()):
        mean = float(m.mean_target.detach()[near][0])
        raise InputError(
            f"labels have a mean of {mean:g}, which is near 0 against their standard deviation; Kling-Gupta with level='ratio' "
            "divides by it: use level='deviation', or labels that are not centred"
        )


def check_exponent(value: float, name: str) -> float:
    """Return an exponent of a norm, which is at least 1."""
    value = float(check_parameter(value, name))
    if not 1 <= value < float("inf"):
        raise InputError(f"{name}={value}; expected a finite number >= 1, such as 1 or 2")
    return value
