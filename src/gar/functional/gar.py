"""Gradient Aligned Regression: absolute errors and two pairwise losses, robustly aggregated, in linear time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from gar.errors import InputError
from gar.functional import accelerated, single, within
from gar.functional.aggregation import Form
from gar.functional.custom_backward import with_custom_backward
from gar.functional.formulas import (
    TENSORS,
    Moments,
    column_components,
    component,
    log_power_mean,
    mean_absolute_error,
    solve_moments,
    spreads_of,
    weighted_components,
)
from gar.functional.grouped import GroupMoments, GroupReduction
from gar.functional.moments import (
    DifferentiableBatch,
    filled_columns,
    joined_components,
    moments,
    rounding_unit,
    value_and_gradient,
)
from gar.validation import (
    Columns,
    NanPolicy,
    Pairs,
    as_columns,
    check_choice,
    check_eps,
    check_nan_policy,
    check_parameter,
    check_tensor,
    in_full_precision,
    is_exported,
    is_transformed,
    like_inputs,
    needs_derivative,
    on_accelerator,
    per_model,
)

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup

Component = Literal["mae", "diff", "diffnorm", "ccc", "nse", "kge"]
COMPONENTS: tuple[Component, ...] = ("mae", "diff", "diffnorm")
Average = Literal["components", "losses"]
ALL_COMPONENTS: tuple[Component, ...] = (*COMPONENTS, "ccc", "nse", "kge")


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
    groups: Tensor | None = None,
    group_reduction: GroupReduction = "pooled",
    average: Average = "components",
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
            models (flatten images: ``pred.flatten(1)``). With several targets a component is the mean over targets.
        target: labels of the same shape.
        alpha: how evenly the components are attended to: a number from 0 (only the largest) to ``math.inf`` (all alike), or
            a tensor with one value per model.
        components: any of ``"mae"``, ``"diff"`` and ``"diffnorm"``, and of the losses ``"ccc"`` (:func:`concordance_loss`),
            ``"nse"`` (:func:`nash_sutcliffe_loss`) and ``"kge"`` (:func:`kling_gupta_loss`).
        weights: a positive factor for each component. ``(1, 0.5, 1)`` is what the authors' code does.
        form: ``"log"``, or ``"exp"`` for the power mean itself.
        pairs: ``"batch"`` pairs the rows of each target, ``"targets"`` the targets of each row. ``"both"`` joins absolute errors
            and the other components of both: five by default.
        sample_weight: how often each row counts: ``(..., batch)`` or one value per label.
        mask: True where a label counts, of the same shapes.
        groups: a whole number for every row, ``(batch,)`` or ``(..., batch)``: a day, a patient, a query. Only rows of the same
            group are compared; absolute errors are of all rows. A group whose labels are all equal, such as one of a single row,
            has no differences and does not count.
        group_reduction: ``"pooled"`` takes the mean of its group off every prediction and label, and then the variance of errors
            and the correlation of all rows; ``"mean"`` takes both of each group, and their mean over groups.
        average: ``"components"`` averages each component over targets, and joins the means once, as the paper does; ``"losses"``
            joins the components of each target (with ``pairs="targets"`` of each row), and averages the losses. With
            ``pairs="both"`` that is the mean of both, ``(GAR_col + GAR_row) / 2``: absolute errors are in the loss of every column
            and of every row.
        nan_policy: what a NaN label means: ``"raise"`` an error, ``"omit"`` it as missing, or ``"propagate"`` it unchecked. While
            tracing, and on an accelerator, where a look at the values would make every step wait, it makes the loss NaN.
        correction: 1 standardises by ``n - 1``, as the authors' code does.
        eps: added to every component. Standard deviations below it count as zero.
        process_group: ``"world"`` or a group: the loss of the joined batch of its ranks, exact for any shards, with one
            exchange of a few numbers. Made for DistributedDataParallel, which averages gradients. Only predictions get a
            gradient then, and a NaN label of one rank is an error on all.

    Returns:
        One value per model, shape ``(...)``; a single number for one model.

    A constant prediction or label has no correlation: its ``diffnorm`` is 1 and has no gradient. One row has ``diff`` 0. Where
    everything is masked or missing, value and gradient are 0.

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
        group_reduction=group_reduction,
        average=average,
    )
    alpha = check_parameter(alpha, "alpha", open_end=False)
    return gar_with(settings, pred, target, alpha, sample_weight, mask, process_group, groups)


@dataclass(frozen=True, kw_only=True)
class GARSettings:
    """Everything about GAR but alpha, checked once. See :func:`gar.functional.gar_loss`."""

    components: Sequence[Component] = COMPONENTS
    weights: Sequence[float] | None = None
    form: Form = "log"
    pairs: Pairs = "batch"
    nan_policy: NanPolicy = "raise"
    correction: int = 0
    eps: float = 1e-7
    group_reduction: GroupReduction = "pooled"
    average: Average = "components"
    all_weights: Sequence[float] = field(init=False, repr=False, compare=False)
    """The weight of every component, 1 where none was given; where both kinds of pairs are joined those along the targets again."""
    has_closed_form: bool = field(init=False, repr=False, compare=False)
    """True if the gradient of every component is known in closed form."""

    def __post_init__(self) -> None:
        components, weights = _checked_components(self.components, self.weights)
        object.__setattr__(self, "components", components)
        is_usual = self.pairs != "both" and self.average == "components"
        object.__setattr__(self, "has_closed_form", is_usual and set(components) <= set(COMPONENTS))
        object.__setattr__(self, "weights", weights)
        every = weights or (1.0,) * len(components)
        joins_both = self.pairs == "both" and self.average == "components"
        again = [weight for name, weight in zip(components, every, strict=True) if name != "mae"] if joins_both else []
        object.__setattr__(self, "all_weights", (*every, *again))
        check_choice(self.form, ("log", "exp"), "form")
        check_choice(self.pairs, ("batch", "targets", "both"), "pairs")
        check_choice(self.average, ("components", "losses"), "average")
        check_nan_policy(self.nan_policy)
        check_choice(self.group_reduction, ("pooled", "mean"), "group_reduction")
        if self.correction not in (0, 1):
            raise InputError(f"correction={self.correction!r}; expected 0 (divide by n) or 1 (by n - 1)")
        object.__setattr__(self, "eps", check_eps(self.eps))

    @property
    def component_names(self) -> tuple[str, ...]:
        """The name of every component; those along the targets have a suffix where both kinds of pairs are joined."""
        if self.pairs != "both":
            return tuple(self.components)
        return (*self.components, *(f"{name}_of_targets" for name in self.components if name != "mae"))


def _checked_components(
    components: Sequence[Component], weights: Sequence[float] | None
) -> tuple[tuple[Component, ...], tuple[float, ...] | None]:
    if isinstance(components, str):
        raise InputError(f"components={components!r} is a string; write a tuple: components=({components!r},)")
    names = tuple(components)
    for name in names:
        check_choice(name, ALL_COMPONENTS, "component")
    if not names or len(set(names)) < len(names):
        raise InputError(f"components={names!r}; expected one or more of {ALL_COMPONENTS}, each at most once")
    if weights is None:
        return names, None
    if isinstance(weights, (float, int)):
        raise InputError(f"weights={weights!r} is a number; expected one for each of the components {names!r}")
    if len(weights) != len(names):
        raise InputError(f"weights={tuple(weights)!r} has {len(weights)} values for {len(names)} components {names!r}")
    if not all(0 < w < float("inf") for w in weights):
        raise InputError(
            f"weights={tuple(weights)!r}; expected positive numbers. To leave a component out, leave it out of components"
        )
    return names, tuple(float(w) for w in weights)


def gar_with(
    settings: GARSettings,
    pred: Tensor,
    target: Tensor,
    alpha: float | Tensor,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    process_group: "ProcessGroup | None" = None,
    groups: Tensor | None = None,
) -> Tensor:
    """Like :func:`gar_loss`, with settings and alpha that were checked before. Here the code path is chosen."""
    loss = GARFunction(settings, target, alpha, sample_weight, mask, groups)
    if process_group is not None:
        from gar.functional.exchange import gar_over_group  # it imports all of PyTorch's compiler, a second or two

        return gar_over_group(loss, pred, process_group)  # type: ignore[no-any-return]
    check_tensor(pred, "pred")
    if is_transformed() or needs_derivative(target, sample_weight, alpha):  # the closed form gives the gradient by pred alone
        return loss.plain(pred)
    if torch.compiler.is_compiling():
        return loss.plain(pred) if loss.by_moments or is_exported() else loss.traced(pred)
    return loss.closed_form(pred) if settings.has_closed_form else loss.plain(pred)


class GARFunction(NamedTuple):
    """GAR as a function of predictions alone, by each of its code paths."""

    settings: GARSettings
    target: Tensor
    alpha: float | Tensor
    sample_weight: Tensor | None = None
    mask: Tensor | None = None
    groups: Tensor | None = None
    exchange_of: Callable[[Columns], Any] | None = None
    """For a batch that is spread over processes: from the columns of this one to the exchange with the others."""
    ranks: int = 1

    @property
    def by_moments(self) -> bool:
        """True if :meth:`plain` is a formula over moments of groups, which autograd differentiates."""
        return self.groups is not None or not self.settings.has_closed_form

    @in_full_precision
    def closed_form(self, pred: Tensor) -> Tensor:
        """Evaluate the closed form: the quick path of eager mode."""
        return with_custom_backward(pred, self.value_and_gradient, self.plain if self.exchange_of is None else None)

    def value_and_gradient(self, pred: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each model and its gradient by the predictions, without a graph."""
        if not self.settings.has_closed_form:
            return self._differentiated(pred)
        columns = self.columns(pred, check_labels=False)  # a look at their mean, later, is enough
        alpha = self.alpha
        if isinstance(alpha, Tensor):
            alpha = per_model(alpha, columns.pred.shape[:-2], columns.pred, "alpha")
        exchange = self.exchange_of and self.exchange_of(columns)
        if columns.groups is not None:
            value, gradient = within.value_and_gradient(columns, alpha, self.settings)
        elif exchange is None and on_accelerator(pred):
            value, gradient = accelerated.value_and_gradient(columns, alpha, self.settings)
        elif exchange is None and single.suits(columns):
            value, gradient = single.value_and_gradient(columns, float(alpha), self.settings)
        else:
            value, gradient = value_and_gradient(columns, alpha, self.settings, exchange)
        gradient = like_inputs(gradient, pred, self.settings.pairs)
        # DistributedDataParallel takes the mean of the ranks' gradients by the parameters. Ours is the gradient of ONE loss of
        # all rows, so the ranks' parts must add up: sum = world size * mean.
        return value, gradient if self.ranks == 1 else gradient.mul_(self.ranks)

    def _differentiated(self, pred: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = pred.detach().requires_grad_()
            value = self.plain(leaf)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), gradient

    def columns(self, pred: Tensor, *, check_labels: bool = True, pairs: Literal["batch", "targets"] | None = None) -> Columns:
        """Return the checked batch, laid out for these pairs, or for those of the settings."""
        settings = self.settings
        policy = settings.nan_policy if check_labels or settings.nan_policy == "omit" else "propagate"
        return as_columns(
            pred,
            self.target,
            sample_weight=self.sample_weight,
            mask=self.mask,
            nan_policy=policy,
            pairs=pairs or settings.pairs,
            groups=None if pairs == "targets" and settings.pairs == "both" else self.groups,
        )

    @in_full_precision
    def plain(self, pred: Tensor) -> Tensor:
        """Evaluate the equations as differentiable operations, which vmap can map and a second derivative needs."""
        if self.settings.average == "losses":
            return self._mean_of_losses(pred)
        components, is_empty = self._mean_components(pred)
        value = self._aggregated(components, per_model(self.alpha, pred.shape[:-2], components[0], "alpha"))
        return value if is_empty is None else value.masked_fill(is_empty, 0.0)

    def _mean_of_losses(self, pred: Tensor) -> Tensor:
        """Return the mean over the losses of columns or of rows; for both kinds of pairs the mean of the two means."""
        found = self._directions(pred, levels_twice=True)
        alpha = per_model(self.alpha, pred.shape[:-2], found[0][1][0], "alpha")
        alpha = alpha.unsqueeze(-1) if isinstance(alpha, Tensor) else alpha
        means = [m.over_columns(self._aggregated(components, alpha)) for m, components in found]
        return (sum(means[1:], means[0]) / len(means)).masked_fill(found[0][0].is_empty(), 0.0)

    def _aggregated(self, components: list[Tensor], alpha: float | Tensor) -> Tensor:
        logs = [value.log() for value in weighted_components(components, self.settings)]
        value: Tensor = log_power_mean(logs, alpha, xp=TENSORS)
        return value.exp() if self.settings.form == "exp" else value

    @in_full_precision
    def components(self, pred: Tensor) -> list[Tensor]:
        """Return the components as they are before weights and eps."""
        if self.exchange_of is None or self.by_moments:
            return self._mean_components(pred)[0]
        columns = self.columns(pred, check_labels=False)
        return joined_components(columns, self.settings, self.exchange_of(columns))

    def _mean_components(self, pred: Tensor) -> tuple[list[Tensor], Tensor | None]:
        """Return the components of every model, and where no row counts; None if all do."""
        settings = self.settings
        if self.by_moments:
            found = self._directions(pred)
            return [m.over_columns(value) for m, values in found for value in values], found[0][0].is_empty()
        columns = self.columns(pred)
        m = moments(columns)
        spreads = spreads_of(m, eps=settings.eps, unit=rounding_unit(columns.pred), xp=TENSORS)
        values = [columns.over_columns(value) for value in column_components(m, settings, spreads, TENSORS)]
        return values, None if columns.weight is None else ~(columns.weight > 0).any(-1).any(-1)

    def _directions(self, pred: Tensor, *, levels_twice: bool = False) -> list[tuple[GroupMoments, list[Tensor]]]:
        """Return moments along the batch, along the targets or both, each with its components ``(..., columns)``.

        Absolute errors know no direction: where both are joined, they are components of the first only, unless ``levels_twice``.
        """
        settings = self.settings
        first = "batch" if settings.pairs == "both" else settings.pairs
        found = [self._group_moments(self.columns(pred, pairs=first))]
        names = [list(settings.components)]
        if settings.pairs == "both":
            targets = self.columns(pred, pairs="targets", check_labels=False)
            found.append(GroupMoments(targets, "pooled", eps=settings.eps))
            names.append([name for name in settings.components if levels_twice or name != "mae"])
        return [(m, [self._component(name, m) for name in some]) for m, some in zip(found, names, strict=True)]

    def _group_moments(self, columns: Columns) -> GroupMoments:
        exchange = self.exchange_of and self.exchange_of(columns)
        return GroupMoments(columns, self.settings.group_reduction, eps=self.settings.eps, exchange=exchange)

    def _component(self, name: Component, groups: GroupMoments) -> Tensor:
        if name == "mae":
            return groups.of_all_rows(mean_absolute_error)
        undefined = 0.0 if name == "diff" else 1.0
        return groups.mean(lambda m, spreads: component(name, m, self.settings, spreads, TENSORS), undefined=undefined)

    @in_full_precision
    def traced(self, pred: Tensor) -> Tensor:
        """Evaluate the closed form for torch.compile: one fused pass for the value and one for the gradient."""
        columns = self.columns(pred)
        batch = DifferentiableBatch(Columns(columns.pred.detach(), columns.target, columns.weight, columns.share))
        m = batch.moments
        m = Moments(*(sums if isinstance(sums, Tensor) else torch.full_like(m.error, sums) for sums in m))
        share = filled_columns(m) if columns.share is None else columns.share
        alpha = per_model(self.alpha, columns.pred.shape[:-2], columns.pred, "alpha")
        value, factors = solve_moments(m, share, alpha, self.settings, rounding_unit(columns.pred), TENSORS)
        rows = [factor.reshape(m.error.shape) for factor in factors]
        numbers = torch.stack([*rows, batch.error.guess, batch.error.rest, batch.pred.guess, batch.pred.rest])
        return _TracedBackward.apply(columns.pred, columns.target, columns.weight, value, numbers)  # type: ignore


class _TracedBackward(torch.autograd.Function):
    """A value, and the gradient from its few coefficients: what is saved is small, the rest is fused into the backward pass."""

    @staticmethod
    def forward(ctx: Any, pred: Tensor, target: Tensor, weight: Tensor | None, value: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(pred, target, weight, numbers)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None, None]:
        pred, target, weight, numbers = ctx.saved_tensors
        by_sign, by_error, by_pred, *shifts = numbers.unsqueeze(-1)
        error = pred - target
        scale = outer.reshape(outer.shape + (1,) * (pred.ndim - outer.ndim))
        gradient = scale * by_sign * error.sign() + scale * by_error * ((error - shifts[0]) - shifts[1])
        gradient = gradient + scale * by_pred * ((pred - shifts[2]) - shifts[3])
        return gradient if weight is None else weight * gradient, None, None, None, None
