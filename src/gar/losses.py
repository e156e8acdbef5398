"""Losses as modules, and the one registry of them.

Each module is a thin face of a function in :mod:`gar.functional`, where its formula, shapes and degenerate cases are written
down. A tuned parameter (alpha, delta, beta, ...) is a number or a tensor with one value per model of a stack; a tensor becomes a
buffer, so it follows ``.to(device)``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gar import functional
from gar.distributed import shared_generator
from gar.functional._components import COMPONENTS, Component, GARSettings
from gar.functional._features import join_batch
from gar.functional.aggregation import Form
from gar.functional.gar import gar_components, gar_with
from gar.functional.mae_pearson import Balance
from gar.functional.pointwise import Activation
from gar.registry import LOSSES
from gar.registry import LossSpec as LossSpec
from gar.registry import register as register
from gar.validation import NanPolicy, Pairs, check_choice, check_parameter

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class _Loss(nn.Module):
    """What all losses share: a tuned parameter, if they have one, and what to do about missing labels."""

    def __init__(self, nan_policy: NanPolicy) -> None:
        super().__init__()
        check_choice(nan_policy, ("raise", "omit", "propagate"), "nan_policy")
        self.nan_policy: NanPolicy = nan_policy

    def _tune(self, name: str, value: float | Tensor, *, zero_allowed: bool = False) -> None:
        value = check_parameter(value, name, open_end=not zero_allowed)
        if isinstance(value, Tensor):
            self.register_buffer(name, value.detach().clone())
        else:
            setattr(self, name, float(value))

    def extra_repr(self) -> str:
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}
        shown |= {name: f"tensor{tuple(value.shape)}" for name, value in self.named_buffers()}
        return ", ".join(f"{name}={value}" for name, value in shown.items())


class GARLoss(_Loss):
    r"""Gradient Aligned Regression: :math:`\alpha \log \frac1M \sum_i L_i^{1/\alpha}` of absolute errors, the variance of errors
    and one minus Pearson's correlation. The function is :func:`gar.functional.gar_loss`, whose page explains every argument.

    The log form is **negative** near a good fit. Use batches of 32 to 128 rows: one row has no differences to learn from.

    Example:
        >>> loss = GARLoss(alpha=0.5)
        >>> pred = torch.tensor([[1.0], [2.0], [4.0]], requires_grad=True)
        >>> loss(pred, torch.tensor([[1.0], [2.0], [3.0]])).backward()
    """

    alpha: float | Tensor

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
    ) -> None:
        super().__init__(nan_policy)
        self._tune("alpha", alpha, zero_allowed=True)
        self.settings = GARSettings(
            components=components,
            weights=weights,
            form=form,
            pairs=pairs,
            nan_policy=nan_policy,
            correction=correction,
            eps=eps,
        )
        self.process_group = process_group

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return gar_with(self.settings, pred, target, self.alpha, sample_weight, mask, self.process_group)

    @torch.no_grad()
    def components_of(
        self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        """The components of a batch by name, as they are before weights and aggregation: what to log.

        With ``process_group`` they are those of the joined batch, alike on all its processes, each of which must call this: it
        exchanges as many numbers as the loss does.

        Example:
            >>> GARLoss().components_of(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))["mae"]
            tensor(0.3333)
        """
        return gar_components(self.settings, pred, target, sample_weight, mask, self.process_group)


class MAELoss(_Loss):
    """Mean absolute error: :func:`gar.functional.mae_loss`."""

    def __init__(self, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(nan_policy)

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return functional.mae_loss(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy)


class MSELoss(_Loss):
    """Mean squared error: :func:`gar.functional.mse_loss`."""

    def __init__(self, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(nan_policy)

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return functional.mse_loss(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy)


class HuberLoss(_Loss):
    """Squared near zero, absolute beyond ``delta``: :func:`gar.functional.huber_loss`."""

    delta: float | Tensor

    def __init__(self, delta: float | Tensor = 1.0, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(nan_policy)
        self._tune("delta", delta)

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return functional.huber_loss(
            pred, target, delta=self.delta, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy
        )


class FocalMAELoss(_Loss):
    """Absolute errors, large ones weighted up: :func:`gar.functional.focal_mae_loss`."""

    beta: float | Tensor

    def __init__(
        self,
        beta: float | Tensor = 1.0,
        *,
        gamma: float = 1.0,
        activation: Activation = "sigmoid",
        nan_policy: NanPolicy = "raise",
    ) -> None:
        super().__init__(nan_policy)
        self._tune("beta", beta)
        check_choice(activation, ("sigmoid", "tanh"), "activation")
        self.gamma = check_parameter(gamma, "gamma")
        self.activation: Activation = activation

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return self._function(
            pred,
            target,
            beta=self.beta,
            gamma=self.gamma,
            activation=self.activation,
            sample_weight=sample_weight,
            mask=mask,
            nan_policy=self.nan_policy,
        )

    _function = staticmethod(functional.focal_mae_loss)


class FocalMSELoss(FocalMAELoss):
    """Squared errors, large ones weighted up: :func:`gar.functional.focal_mse_loss`."""

    _function = staticmethod(functional.focal_mse_loss)


class MAEPearsonLoss(_Loss):
    """Absolute error and correlation, balanced by the correlation: :func:`gar.functional.mae_pearson_loss`."""

    def __init__(self, *, balance: Balance = "text", nan_policy: NanPolicy = "raise") -> None:
        super().__init__(nan_policy)
        check_choice(balance, ("text", "code"), "balance")
        self.balance: Balance = balance

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return functional.mae_pearson_loss(
            pred, target, balance=self.balance, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy
        )


class RankSimLoss(_Loss):
    """Absolute error plus ``gamma`` times the ranking regulariser on features: :func:`gar.functional.ranksim_loss`.

    It draws random numbers: ``torch.func.vmap`` needs ``randomness="different"`` or ``"same"``, and with a ``generator``
    ``torch.compile`` cannot make one graph of it (``fullgraph=True`` is an error).
    """

    interpolation: float | Tensor

    def __init__(
        self,
        interpolation: float | Tensor = 1.0,
        *,
        gamma: float = 100.0,
        generator: torch.Generator | None = None,
        nan_policy: NanPolicy = "raise",
        process_group: "ProcessGroup | None" = None,
    ) -> None:
        super().__init__(nan_policy)
        self._tune("interpolation", interpolation)
        self.gamma = check_parameter(gamma, "gamma", open_end=False)
        self._generator = generator
        self.process_group = process_group

    def forward(
        self, pred: Tensor, target: Tensor, features: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        generator = self._generator
        if self.process_group is not None:
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
            mask=mask,
            nan_policy=self.nan_policy,
        )
        return mae + self.gamma * regulariser


class RankNContrastLoss(_Loss):
    """Contrastive loss of features alone, to train an encoder before its head: :func:`gar.functional.rank_n_contrast_loss`."""

    temperature: float | Tensor

    def __init__(
        self,
        temperature: float | Tensor = 2.0,
        *,
        nan_policy: NanPolicy = "raise",
        process_group: "ProcessGroup | None" = None,
    ) -> None:
        super().__init__(nan_policy)
        self._tune("temperature", temperature)
        self.process_group = process_group

    def forward(
        self, features: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return functional.rank_n_contrast_loss(
            features,
            target,
            temperature=self.temperature,
            sample_weight=sample_weight,
            mask=mask,
            nan_policy=self.nan_policy,
            process_group=self.process_group,
        )


class ConRLoss(_Loss):
    """Absolute error plus ``beta`` times the contrastive regulariser on features: :func:`gar.functional.conr_loss`."""

    beta: float | Tensor

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
        super().__init__(nan_policy)
        self._tune("beta", beta, zero_allowed=True)
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


registry = LOSSES
