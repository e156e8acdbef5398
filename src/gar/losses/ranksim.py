"""RankSim as a module."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gar import functional
from gar.distributed import shared_generator
from gar.errors import InputError
from gar.losses.base import RegularisedLoss
from gar.validation import NanPolicy, check_parameter, tuned_parameter

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class RankSimLoss(RegularisedLoss):
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
        super().__init__(nan_policy, process_group)
        self.interpolation = tuned_parameter(interpolation, "interpolation")
        self.gamma = check_parameter(gamma, "gamma", open_end=False)
        self._generator = generator

    def forward(
        self,
        pred: Tensor,
        target: Tensor,
        features: Tensor,
        *,
        sample_weight: Tensor | None = None,
        mask: Tensor | None = None,
        representatives: Tensor | None = None,
        **more: object,
    ) -> Tensor:
        self.refuse(more)
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
        if self.process_group is not None and representatives is not None:
            raise InputError("representatives are rows of one process; leave them out with process_group, and they are drawn")
        features, target, sample_weight, mask, pred = self.joined(features, target, sample_weight, mask, pred)
        if self.process_group is not None:
            generator = shared_generator(generator, self.process_group, features.device)
        mae = self.mae(pred, target, sample_weight, mask)
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
