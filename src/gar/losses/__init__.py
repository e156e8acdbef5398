"""Losses as modules: GAR, losses that are one function of :mod:`gar.functional`, and absolute errors with a regulariser.

A tuned parameter (alpha, delta, beta, ...) is a number or a tensor with one value per model of a stack; a tensor becomes a buffer,
so it follows ``.to(device)``. :data:`LOSSES` lists all losses by name, and :func:`register` adds one of your own.
"""

from gar.losses.base import RegressionLoss
from gar.losses.functions import FocalMAELoss, FocalMSELoss, HuberLoss, MAELoss, MAEPearsonLoss, MSELoss, RankNContrastLoss
from gar.losses.gar import GARLoss
from gar.losses.regularised import ConRLoss, RankSimLoss
from gar.registry import LOSSES, LossSpec, register

__all__ = [
    "LOSSES",
    "ConRLoss",
    "FocalMAELoss",
    "FocalMSELoss",
    "GARLoss",
    "HuberLoss",
    "LossSpec",
    "MAELoss",
    "MAEPearsonLoss",
    "MSELoss",
    "RankNContrastLoss",
    "RankSimLoss",
    "RegressionLoss",
    "register",
]
