"""MAE-Pearson as a module."""

from gar import functional
from gar.functional.mae_pearson import Balance
from gar.losses.base import FunctionLoss
from gar.validation import NanPolicy, check_choice


class MAEPearsonLoss(FunctionLoss):
    """Absolute error and correlation, balanced by the correlation: :func:`gar.functional.mae_pearson_loss`."""

    function = staticmethod(functional.mae_pearson_loss)
    options = ("balance",)

    def __init__(self, *, balance: Balance = "text", nan_policy: NanPolicy = "raise") -> None:
        super().__init__(nan_policy=nan_policy)
        check_choice(balance, ("text", "code"), "balance")
        self.balance = balance
