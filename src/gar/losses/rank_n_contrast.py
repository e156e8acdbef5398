"""Rank-N-Contrast as a module."""

from typing import TYPE_CHECKING

from torch import Tensor

from gar import functional
from gar.losses.base import FunctionLoss
from gar.validation import NanPolicy, tuned_parameter

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class RankNContrastLoss(FunctionLoss):
    """Contrastive loss of features alone, to train an encoder before its head: :func:`gar.functional.rank_n_contrast_loss`.

    It is called as ``loss(features, target)``.
    """

    function = staticmethod(functional.rank_n_contrast_loss)
    options = ("temperature", "process_group")

    def __init__(
        self, temperature: float | Tensor = 2.0, *, nan_policy: NanPolicy = "raise", process_group: "ProcessGroup | None" = None
    ) -> None:
        super().__init__(nan_policy=nan_policy)
        self.temperature = tuned_parameter(temperature, "temperature")
        self.process_group = process_group
