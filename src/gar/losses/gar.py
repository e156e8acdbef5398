"""Gradient Aligned Regression as a module."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gar.errors import InputError
from gar.functional.aggregation import Form
from gar.functional.gar import COMPONENTS, Average, Component, GARFunction, GARSettings, gar_with
from gar.functional.grouped import GroupReduction
from gar.losses.base import RegressionLoss
from gar.validation import NanPolicy, Pairs, in_full_precision, tuned_parameter

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class GARLoss(RegressionLoss):
    r"""Gradient Aligned Regression: :math:`\alpha \log \frac1M \sum_i L_i^{1/\alpha}` of absolute errors, the variance of errors
    and one minus Pearson's correlation. The function is :func:`gar.functional.gar_loss`, which has the details.

    The log form is **negative** near a good fit. Use batches of 32 to 128 rows: one row has no differences to learn from. There is
    no ``reduction``, since a loss over pairs has no value of a single row.

    Dimensions before ``(batch, targets)`` are independent models, with a value each. Flatten other data first: of images
    ``(batch, 1, height, width)``, ``pred.flatten(1)`` makes each pixel a target, whose rows are compared, and
    ``pred.reshape(-1)`` compares every pixel with every other.

    Args:
        alpha: how evenly the components are attended to: a number from 0 (only the largest) to ``math.inf`` (all alike), or
            a tensor with one value per model.
        components: names of what is aggregated, of ``"mae"``, ``"diff"``, ``"diffnorm"``, ``"ccc"``, ``"nse"`` and ``"kge"``.
        weights: a positive factor for each component.
        form: ``"log"``, or ``"exp"`` for the power mean itself, which is never negative.
        pairs: ``"batch"`` compares rows, ``"targets"`` the targets of each row, ``"both"`` does both.
        nan_policy: what a NaN label means: ``"raise"`` an error, ``"omit"`` a missing label, ``"propagate"`` nothing special.
        eps: added to every component. Standard deviations below it count as zero.
        process_group: ``"world"``, or a group of processes whose rows are compared as one batch.
        correction: 1 standardises by ``n - 1``, as the authors' code does.
        group_reduction: with ``groups``, ``"pooled"`` or the ``"mean"`` over groups.
        average: ``"components"`` averages each component over targets first, ``"losses"`` the losses of targets.

    ``forward(pred, target)`` takes labels of the shape of predictions, and as keywords ``sample_weight`` (how often each row
    counts), ``mask`` (True where a label counts) and ``groups`` (a whole number for every row: only equal ones are compared).

    Example:
        >>> loss = GARLoss(alpha=0.5)
        >>> pred = torch.tensor([[1.0], [2.0], [4.0]], requires_grad=True)
        >>> loss(pred, torch.tensor([[1.0], [2.0], [3.0]])).backward()
    """

    def __init__(
        self,
        alpha: float | Tensor = 1.0,
        *,
        components: Sequence[Component] = COMPONENTS,
        weights: Sequence[float] | None = None,
        form: Form = "log",
        pairs: Pairs = "batch",
        nan_policy: NanPolicy = "raise",
        eps: float = 1e-7,
        process_group: "ProcessGroup | None" = None,
        correction: int = 0,
        group_reduction: GroupReduction = "pooled",
        average: Average = "components",
    ) -> None:
        super().__init__()
        self.settings = GARSettings(
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
        self.alpha = tuned_parameter(alpha, "alpha", open_end=False)
        self.process_group = process_group

    def option(self, name: str, absent: object) -> object:
        return getattr(self.settings, name, super().option(name, absent))

    def forward(
        self,
        pred: Tensor,
        target: Tensor,
        *,
        sample_weight: Tensor | None = None,
        mask: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Tensor:
        return gar_with(self.settings, pred, target, self.alpha, sample_weight, mask, self.process_group, groups)

    @in_full_precision
    def value_and_gradient(
        self,
        pred: Tensor,
        target: Tensor,
        *,
        sample_weight: Tensor | None = None,
        mask: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of every model and its gradient by ``pred``, in closed form: for training loops without autograd.

        Example:
            >>> GARLoss(components=("mae",), form="exp").value_and_gradient(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 3.0]))
            (tensor(0.5000), tensor([0.0000, 0.5000]))
        """
        if self.process_group is not None:
            raise InputError("value_and_gradient is of the batch of one process; leave out process_group, or call the loss itself")
        loss = GARFunction(self.settings, target, self.alpha, sample_weight, mask, groups)
        if not torch.is_grad_enabled():
            return loss.value_and_gradient(pred)
        with torch.no_grad():
            return loss.value_and_gradient(pred)

    @torch.no_grad()
    def components_of(
        self,
        pred: Tensor,
        target: Tensor,
        *,
        sample_weight: Tensor | None = None,
        mask: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the components of a batch by name, as they are before weights and aggregation: what to log.

        With ``process_group`` they are those of the joined batch, equal on all its processes, each of which must call this: it
        exchanges as many numbers as the loss does.

        Example:
            >>> GARLoss().components_of(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))["mae"]
            tensor(0.3333)
        """
        loss = GARFunction(self.settings, target, self.alpha, sample_weight, mask, groups)
        if self.process_group is None:
            values = loss.components(pred)
        else:
            from gar.functional.exchange import gar_components_over_group

            values = gar_components_over_group(loss, pred, self.process_group)
        return dict(zip(self.settings.component_names, values, strict=True))
