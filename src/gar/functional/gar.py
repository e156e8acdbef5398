"""Gradient Aligned Regression: absolute errors and two pairwise losses, robustly aggregated, in linear time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gar.distributed import world_size
from gar.functional._closed_form import joined_components, traced_value, value_and_gradient
from gar.functional._components import COMPONENTS, Component, GARSettings, column_components, finished
from gar.functional._given_gradient import with_gradient
from gar.functional._moments import moments, rounding_unit
from gar.functional._numbers import TENSORS
from gar.functional.aggregation import Form, log_power_mean
from gar.validation import (
    Columns,
    NanPolicy,
    Pairs,
    as_columns,
    check_tensor,
    in_full_precision,
    is_transformed,
    like_inputs,
    model_parameter,
    needs_derivative,
)

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


def gar_loss(
    pred: Tensor,
    target: Tensor,
    *,
    alpha: float | Tensor = 1.0,
    components: Sequence[Component] = COMPONENTS,
    weights: Sequence[float] | None = None,
    form: Form = "log",
    pairs: Pairs = "batch",
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
    correction: int = 0,
    eps: float = 1e-7,
    process_group: "ProcessGroup | None" = None,
) -> Tensor:
    r"""Gradient Aligned Regression: learn the labels and all their pairwise differences at the price of an absolute error.

    .. math:: \alpha \log \frac1M \sum_i L_i^{1/\alpha}, \quad L = (\mathrm{mean}|f-y|,\ \mathrm{Var}(f-y),\ 1-\rho(f, y))

    (paper, Alg. 1; Eqs. diff4, diffnorm-pearson and gar2). The log form is **negative** where the components are below one:
    that is a good fit, not an error.

    Args:
        pred: predictions, ``(batch,)``, ``(batch, targets)`` or ``(..., batch, targets)``; leading dimensions are independent
            models. With several targets a component is the mean over targets.
        target: labels of the same shape.
        alpha: how evenly the components are attended to: a number from 0 (only the largest) to ``math.inf`` (all alike), or
            a tensor with one value per model.
        components: any of ``"mae"``, ``"diff"`` and ``"diffnorm"``.
        weights: a positive factor for each component. ``(1, 0.5, 1)`` is what the authors' code does.
        form: ``"log"``, or ``"exp"`` for the power mean itself.
        pairs: ``"batch"`` pairs the rows of each target, ``"targets"`` the targets of each row.
        sample_weight: how often each row counts: ``(..., batch)`` or one value per label.
        mask: True where a label counts, of the same shapes.
        nan_policy: what a NaN label means: ``"raise"`` an error (while tracing it just stays NaN), ``"omit"`` it as missing,
            or ``"propagate"`` it unchecked.
        correction: 1 standardises by ``n - 1``, as the authors' code does.
        eps: added to every component. Standard deviations below it count as zero.
        process_group: ``"world"`` or a group: the loss of the joined batch of its ranks, exact for any shards, with one
            exchange of a few numbers. Made for DistributedDataParallel, which averages gradients. Only predictions get a
            gradient then, and a NaN label of one rank is an error on all.

    Returns:
        One value per model, shape ``(...)``; a single number for one model.

    A constant prediction or label has no correlation: its ``diffnorm`` is 1 and has no gradient. One row has ``diff`` 0. Where
    everything is masked, components are 0 and so is the gradient.

    Example:
        >>> gar_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]), alpha=0.5)
        tensor(-1.4630)
    """
    settings = GARSettings(
        components=components,
        weights=weights,
        form=form,
        pairs=pairs,
        nan_policy=nan_policy,
        correction=correction,
        eps=eps,
    )
    return gar_with(settings, pred, target, alpha, sample_weight, mask, process_group)


def gar_with(
    settings: GARSettings,
    pred: Tensor,
    target: Tensor,
    alpha: float | Tensor,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    group: "ProcessGroup | None" = None,
) -> Tensor:
    """:func:`gar_loss` with settings that were checked before. Here it is decided which road to take."""
    check_tensor(pred, "pred")
    loss = _Loss(settings, target, alpha, sample_weight, mask, group)
    if group is not None:
        from gar.functional._over_group import over_group  # it imports all of PyTorch's compiler, a second or two

        return over_group(loss, pred)
    if is_transformed() or loss.needs_more_gradients():
        return loss.plain(pred)
    if torch.compiler.is_compiling():
        return loss.traced(pred)
    return loss.closed_form(pred)


def gar_components(
    settings: GARSettings,
    pred: Tensor,
    target: Tensor,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    group: "ProcessGroup | None" = None,
) -> dict[str, Tensor]:
    """The components of a batch by name, each of the leading shape, without weights, eps or aggregation."""
    loss = _Loss(settings, target, 1.0, sample_weight, mask, group)
    if group is None:
        values = loss.components(pred)
    else:
        from gar.functional._over_group import components_over_group

        values = components_over_group(loss, pred)
    return dict(zip(settings.components, values, strict=True))


class _Loss(NamedTuple):
    """GAR as a function of predictions alone, by each of its roads."""

    settings: GARSettings
    target: Tensor
    alpha: float | Tensor
    sample_weight: Tensor | None = None
    mask: Tensor | None = None
    group: "ProcessGroup | None" = None

    def needs_more_gradients(self) -> bool:
        """Whether labels, weights or alpha need a derivative too, which the closed form does not give."""
        return needs_derivative(self.target, self.sample_weight, self.alpha)

    def columns(self, pred: Tensor, *, check_labels: bool = True) -> Columns:
        settings = self.settings
        policy = settings.nan_policy if check_labels or settings.nan_policy == "omit" else "propagate"
        return as_columns(
            pred, self.target, sample_weight=self.sample_weight, mask=self.mask, nan_policy=policy, pairs=settings.pairs
        )

    def alpha_of(self, columns: Columns) -> float | Tensor:
        return model_parameter(self.alpha, columns, "alpha", open_end=False)

    @in_full_precision
    def plain(self, pred: Tensor) -> Tensor:
        """The equations as differentiable operations: what vmap maps and a second derivative needs."""
        columns = self.columns(pred)
        logs = [value.log() for value in finished(self._means(columns), self.settings)]
        value: Tensor = log_power_mean(logs, self.alpha_of(columns), xp=TENSORS)
        return value.exp() if self.settings.form == "exp" else value

    @in_full_precision
    def components(self, pred: Tensor) -> list[Tensor]:
        """What is aggregated, as it is before weights and eps."""
        return self._means(self.columns(pred))

    @in_full_precision
    def joined_components(self, pred: Tensor) -> list[Tensor]:
        """The same of the joined batch of a group."""
        assert self.group is not None
        return joined_components(self.columns(pred, check_labels=False), self.settings, self.group)

    def _means(self, columns: Columns) -> list[Tensor]:
        values = column_components(moments(columns), self.settings, unit=rounding_unit(columns.pred), xp=TENSORS)
        return [columns.over_columns(value) for value in values]

    @in_full_precision
    def traced(self, pred: Tensor) -> Tensor:
        """The closed form for torch.compile."""
        columns = self.columns(pred)
        return traced_value(columns, self.alpha_of(columns), self.settings)

    @in_full_precision
    def closed_form(self, pred: Tensor) -> Tensor:
        """The closed form for eager mode."""
        return with_gradient(pred, self._solve, None if self.group else self.plain)

    def _solve(self, pred: Tensor) -> tuple[Tensor, Tensor]:
        columns = self.columns(pred, check_labels=False)  # a look at their mean, later, is enough
        value, gradient = value_and_gradient(columns, self.alpha_of(columns), self.settings, group=self.group)
        gradient = like_inputs(gradient, pred, self.settings.pairs)
        # DistributedDataParallel takes the mean of the ranks' gradients by the parameters. Ours is the gradient of ONE loss of
        # all rows, so the ranks' parts must add up: sum = world_size * mean.
        return value, gradient if self.group is None else gradient.mul_(world_size(self.group))
