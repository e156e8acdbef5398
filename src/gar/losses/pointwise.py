"""Losses of each label by itself, as modules: absolute, squared, Huber and focal errors."""

from torch import Tensor

from gar import functional
from gar.functional.pointwise import Activation
from gar.losses.base import FunctionLoss
from gar.validation import NanPolicy, check_choice, check_parameter, tuned_parameter


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
        self, beta: float | Tensor = 1.0, *, gamma: float = 1.0, activation: Activation = "sigmoid", nan_policy: NanPolicy = "raise"
    ) -> None:
        super().__init__(nan_policy=nan_policy)
        self.beta = tuned_parameter(beta, "beta")
        check_choice(activation, ("sigmoid", "tanh"), "activation")
        self.gamma = check_parameter(gamma, "gamma")
        self.activation = activation


class FocalMSELoss(FocalMAELoss):
    """Squared errors, large ones weighted up: :func:`gar.functional.focal_mse_loss`."""

    function = staticmethod(functional.focal_mse_loss)
