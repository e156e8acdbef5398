"""ConR as a module."""

from typing import TYPE_CHECKING

from torch import Tensor

from gar import functional
from gar.losses.base import RegularisedLoss
from gar.validation import NanPolicy, check_parameter, tuned_parameter

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class ConRLoss(RegularisedLoss):
    """Absolute error plus ``beta`` times the contrastive regulariser on features: :func:`gar.functional.conr_loss`."""

    def __init__(
        self,
        beta: float | Tensor = 1.0,
        *,
        window: float = 1.0,
        temperature: float = 0.07,
        eta: float = 0.01,
        count_excluded: bool = False,
        nan_policy: NanPolicy = "raise",
        process_group: "ProcessGroup | None" = None,
    ) -> None:
        super().__init__(nan_policy, process_group)
        self.beta = tuned_parameter(beta, "beta", open_end=False)
        self.window = check_parameter(window, "window", open_end=False)
        self.temperature = check_parameter(temperature, "temperature")
        self.eta, self.count_excluded = eta, count_excluded

    def forward(
        self,
        pred: Tensor,
        target: Tensor,
        features: Tensor,
        *,
        sample_weight: Tensor | None = None,
        mask: Tensor | None = None,
        **more: object,
    ) -> Tensor:
        self.refuse(more)
        features, target, sample_weight, mask, pred = self.joined(features, target, sample_weight, mask, pred)
        mae = self.mae(pred, target, sample_weight, mask)
        regulariser = functional.conr_loss(
            features,
            pred,
            target,
            window=self.window,
            temperature=self.temperature,
            eta=self.eta,
            count_excluded=self.count_excluded,
            sample_weight=sample_weight,
            mask=mask,
            nan_policy=self.nan_policy,
        )
        return mae + self.beta * regulariser
