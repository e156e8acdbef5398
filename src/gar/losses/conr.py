"""ConR as a module."""

from typing import TYPE_CHECKING

from torch import Tensor

from gar import functional
from gar.functional.features import join_batch
from gar.losses.base import RegressionLoss
from gar.validation import NanPolicy, check_nan_policy, check_parameter, tuned_parameter

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class ConRLoss(RegressionLoss):
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
        super().__init__()
        check_nan_policy(nan_policy)
        self.nan_policy = nan_policy
        self.beta = tuned_parameter(beta, "beta", open_end=False)
        self.window = check_parameter(window, "window", open_end=False)
        self.temperature = check_parameter(temperature, "temperature")
        self.eta = eta
        self.count_excluded = count_excluded
        self.process_group = process_group

    def forward(
        self, pred: Tensor, target: Tensor, features: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        if self.process_group is not None:
            features, target, sample_weight, mask, pred = join_batch(
                self.process_group, features, target, sample_weight, mask, pred
            )
        mae = functional.mae_loss(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy)
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
