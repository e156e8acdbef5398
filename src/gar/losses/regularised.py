"""Absolute error plus a regulariser on features, as modules: RankSim and ConR."""

from typing import TYPE_CHECKING, Any

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


class _RegularisedLoss(RegressionLoss):
    """What both losses do: with ``process_group`` they are those of the joined batch of all ranks."""

    def __init__(self, nan_policy: NanPolicy, process_group: "ProcessGroup | None") -> None:
        super().__init__()
        check_nan_policy(nan_policy)
        self.nan_policy, self.process_group = nan_policy, process_group

    def _joined(self, features: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None, pred: Tensor) -> Any:
        if self.process_group is None:
            return features, target, sample_weight, mask, pred
        return join_batch(self.process_group, features, target, sample_weight, mask, pred)

    def _mae(self, pred: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None) -> Tensor:
        return functional.mae_loss(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy)


class RankSimLoss(_RegularisedLoss):
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
        features, target, sample_weight, mask, pred = self._joined(features, target, sample_weight, mask, pred)
        mae = self._mae(pred, target, sample_weight, mask)
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


class ConRLoss(_RegularisedLoss):
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
        self, pred: Tensor, target: Tensor, features: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        features, target, sample_weight, mask, pred = self._joined(features, target, sample_weight, mask, pred)
        mae = self._mae(pred, target, sample_weight, mask)
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
