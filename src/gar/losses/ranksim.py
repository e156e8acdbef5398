"""RankSim as a module."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gar import functional
from gar.distributed import shared_generator
from gar.errors import InputError
from gar.functional.features import join_batch
from gar.losses.base import RegressionLoss
from gar.validation import NanPolicy, check_nan_policy, check_parameter, tuned_parameter

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class RankSimLoss(RegressionLoss):
    """Absolute error plus ``gamma`` times the ranking regulariser on features: :func:`gar.functional.ranksim_loss`.

    It draws random numbers: ``torch.func.vmap`` needs ``randomness="different"`` or ``"same"``, and with a ``generator``
    ``torch.compile`` cannot make one graph of it (``fullgraph=True`` is an error).
    """

    def __init__(
        self,
        interpolation: float | Tensor = 1.0,
        *,
        gamma: float = 100.0,
        generator: torch.Generator | None = None,
        nan_policy: NanPolicy = "raise",
        process_group: "ProcessGroup | None" = None,
    ) -> None:
        super().__init__()
        check_nan_policy(nan_policy)
        self.nan_policy = nan_policy
        self.interpolation = tuned_parameter(interpolation, "interpolation")
        self.gamma = check_parameter(gamma, "gamma", open_end=False)
        self._generator = generator
        self.process_group = process_group

    def forward(
        self,
        pred: Tensor,
        target: Tensor,
        features: Tensor,
        *,
        sample_weight: Tensor | None = None,
        mask: Tensor | None = None,
        representatives: Tensor | None = None,
    ) -> Tensor:
        """Return one value per model.

        Args:
            pred: ``(..., batch, targets)``.
            target: labels of the same shape.
            features: ``(..., batch, dim)``.
            sample_weight: how often each row counts.
            mask: True where a row counts.
            representatives: True for one row of every distinct label, ``(..., batch)``: these rows are ranked. None draws them at
                random.
        """
        generator = self._generator
        if self.process_group is not None:
            if representatives is not None:
                raise InputError("representatives are rows of one process; leave them out with process_group, and they are drawn")
            generator = shared_generator(generator, self.process_group, features.device)
            features, target, sample_weight, mask, pred = join_batch(
                self.process_group, features, target, sample_weight, mask, pred
            )
        mae = functional.mae_loss(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy)
        regulariser = functional.ranksim_loss(
            features,
            target,
            interpolation=self.interpolation,
            generator=generator,
            sample_weight=sample_weight,
            mask=_both(mask, representatives),
            nan_policy=self.nan_policy,
        )
        return mae + self.gamma * regulariser


def _both(mask: Tensor | None, representatives: Tensor | None) -> Tensor | None:
    if mask is None or representatives is None:
        return representatives if mask is None else mask
    return representatives & (mask.all(-1) if mask.ndim > representatives.ndim else mask)
