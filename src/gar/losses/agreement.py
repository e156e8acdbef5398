"""Losses of agreement as modules: Pearson, concordance, Nash-Sutcliffe, Kling-Gupta and Norm-in-Norm."""

from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from gar import functional
from gar.functional.agreement import KlingGupta, Level, check_exponent
from gar.functional.grouped import GroupReduction
from gar.losses.base import FunctionLoss
from gar.validation import NanPolicy, check_choice, check_eps

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class AgreementLoss(FunctionLoss):
    """A loss that compares the rows of groups, if they are given."""

    options: ClassVar[tuple[str, ...]] = ("group_reduction", "eps")

    def __init__(self, *, group_reduction: GroupReduction = "pooled", nan_policy: NanPolicy = "raise", eps: float = 1e-7) -> None:
        super().__init__(nan_policy=nan_policy)
        check_choice(group_reduction, ("pooled", "mean"), "group_reduction")
        self.group_reduction, self.eps = group_reduction, check_eps(eps)

    def forward(  # type: ignore[override]
        self,
        pred: Tensor,
        target: Tensor,
        *,
        sample_weight: Tensor | None = None,
        mask: Tensor | None = None,
        groups: Tensor | None = None,
        **more: object,
    ) -> Tensor:
        self.refuse(more)
        options = {name: getattr(self, name) for name in (*self.options, "nan_policy")}
        return self.function(pred, target, sample_weight=sample_weight, mask=mask, groups=groups, **options)


class MomentLoss(AgreementLoss):
    """A loss over moments; with ``process_group``, of the joined batch of all ranks."""

    options = (*AgreementLoss.options, "process_group")

    def __init__(
        self,
        *,
        group_reduction: GroupReduction = "pooled",
        nan_policy: NanPolicy = "raise",
        eps: float = 1e-7,
        process_group: "ProcessGroup | None" = None,
    ) -> None:
        super().__init__(group_reduction=group_reduction, nan_policy=nan_policy, eps=eps)
        self.process_group = process_group


class PearsonLoss(MomentLoss):
    """One minus Pearson's correlation: :func:`gar.functional.pearson_loss`."""

    function = staticmethod(functional.pearson_loss)


class ConcordanceLoss(MomentLoss):
    """One minus Lin's concordance: :func:`gar.functional.concordance_loss`."""

    function = staticmethod(functional.concordance_loss)


class NashSutcliffeLoss(MomentLoss):
    """Squared error over the variance of labels: :func:`gar.functional.nash_sutcliffe_loss`."""

    function = staticmethod(functional.nash_sutcliffe_loss)


class KlingGuptaLoss(MomentLoss):
    """Correlation, scale and level as one distance: :func:`gar.functional.kling_gupta_loss`."""

    function = staticmethod(functional.kling_gupta_loss)
    options = (*MomentLoss.options, "variant", "level")

    def __init__(
        self,
        *,
        variant: KlingGupta = "2009",
        level: Level = "ratio",
        group_reduction: GroupReduction = "pooled",
        nan_policy: NanPolicy = "raise",
        eps: float = 1e-7,
        process_group: "ProcessGroup | None" = None,
    ) -> None:
        super().__init__(group_reduction=group_reduction, nan_policy=nan_policy, eps=eps, process_group=process_group)
        check_choice(variant, ("2009", "2012"), "variant")
        check_choice(level, ("ratio", "deviation"), "level")
        self.variant, self.level = variant, level


class NormInNormLoss(MomentLoss):
    """Norm of the difference of normalised values: :func:`gar.functional.norm_in_norm_loss`."""

    function = staticmethod(functional.norm_in_norm_loss)
    options = (*MomentLoss.options, "p", "q")

    def __init__(
        self,
        p: float = 1.0,
        *,
        q: float = 2.0,
        group_reduction: GroupReduction = "pooled",
        nan_policy: NanPolicy = "raise",
        eps: float = 1e-7,
        process_group: "ProcessGroup | None" = None,
    ) -> None:
        super().__init__(group_reduction=group_reduction, nan_policy=nan_policy, eps=eps, process_group=process_group)
        self.p, self.q = check_exponent(p, "p"), check_exponent(q, "q")
