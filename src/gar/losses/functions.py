"""Losses that are one function of :mod:`gar.functional`, as modules."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from gar import functional
from gar.functional.mae_pearson import Balance
from gar.functional.pointwise import Activation
from gar.losses.base import RegressionLoss
from gar.validation import NanPolicy, check_choice, check_nan_policy, check_parameter, tuned_parameter

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class FunctionLoss(RegressionLoss):
    """A loss that passes its inputs and options on to one function of :mod:`gar.functional`."""

    function: ClassVar[Callable[..., Tensor]]
    options: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that the function takes as keywords, besides ``nan_policy``."""

    def __init__(self, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__()
        check_nan_policy(nan_policy)
        self.nan_policy = nan_policy

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        options = {name: getattr(self, name) for name in (*self.options, "nan_policy")}
        return self.function(pred, target, sample_weight=sample_weight, mask=mask, **options)


class MAELoss(FunctionLoss):
    """Mean absolute error: :func:`gar.functional.mae_loss`."""

    function = staticmethod(functional.mae_loss)


class MSELoss(FunctionLoss):
    """Mean squared error: :func:`gar.functional.mse_loss`."""

    function = staticmethod(functional.mse_loss)


class HuberLoss(FunctionLoss):
    """Squared error near zero, absolute beyond ``delta``: :func:`gar.functional.huber_loss`."""

    function = staticmethod(functional.huber_loss)
    options = ("delta",)

    def __init__(self, delta: float | Tensor = 1.0, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(nan_policy=nan_policy)
        self.delta = tuned_parameter(delta, "delta")


class FocalMAELoss(FunctionLoss):
    """Absolute errors, large ones weighted up: :func:`gar.functional.focal_mae_loss`."""

    function = staticmethod(functional.focal_mae_loss)
    options = ("beta", "gamma", "activation")

    def __init__(
        self,
        beta: float | Tensor = 1.0,
        *,
        gamma: float = 1.0,
        activation: Activation = "sigmoid",
        nan_policy: NanPolicy = "raise",
    ) -> None:
        super().__init__(nan_policy=nan_policy)
        self.beta = tuned_parameter(beta, "beta")
        check_choice(activation, ("sigmoid", "tanh"), "activation")
        self.gamma = check_parameter(gamma, "gamma")
        self.activation = activation


class FocalMSELoss(FocalMAELoss):
    """Squared errors, large ones weighted up: :func:`gar.functional.focal_mse_loss`."""

    function = staticmethod(functional.focal_mse_loss)


class MAEPearsonLoss(FunctionLoss):
    """Absolute error and correlation, balanced by the correlation: :func:`gar.functional.mae_pearson_loss`."""

    function = staticmethod(functional.mae_pearson_loss)
    options = ("balance",)

    def __init__(self, *, balance: Balance = "text", nan_policy: NanPolicy = "raise") -> None:
        super().__init__(nan_policy=nan_policy)
        check_choice(balance, ("text", "code"), "balance")
        self.balance = balance


class RankNContrastLoss(FunctionLoss):
    """Contrastive loss of features alone, to train an encoder before its head: :func:`gar.functional.rank_n_contrast_loss`.

    It is called as ``loss(features, target)``.
    """

    function = staticmethod(functional.rank_n_contrast_loss)
    options = ("temperature", "process_group")

    def __init__(
        self,
        temperature: float | Tensor = 2.0,
        *,
        nan_policy: NanPolicy = "raise",
        process_group: "ProcessGroup | None" = None,
    ) -> None:
        super().__init__(nan_policy=nan_policy)
        self.temperature = tuned_parameter(temperature, "temperature")
        self.process_group = process_group
