"""Losses as modules, one file a family, named as the file of :mod:`gar.functional` that has its formula.

A tuned parameter (alpha, delta, beta, ...) is a number or a tensor with one value per model of a stack; a tensor becomes a buffer,
so it follows ``.to(device)``. :data:`LOSSES` lists all losses by name, and :func:`register` adds one of your own.
"""

from gar.losses.agreement import ConcordanceLoss, KlingGuptaLoss, NashSutcliffeLoss, NormInNormLoss, PearsonLoss
from gar.losses.base import RegressionLoss
from gar.losses.conr import ConRLoss
from gar.losses.gar import GARLoss
from gar.losses.mae_pearson import MAEPearsonLoss
from gar.losses.pointwise import FocalMAELoss, FocalMSELoss, HuberLoss, MAELoss, MSELoss
from gar.losses.rank_n_contrast import RankNContrastLoss
from gar.losses.ranksim import RankSimLoss
from gar.registry import LOSSES, LossSpec, register

__all__ = [
    "LOSSES",
    "ConRLoss",
    "ConcordanceLoss",
    "FocalMAELoss",
    "FocalMSELoss",
    "GARLoss",
    "HuberLoss",
    "KlingGuptaLoss",
    "LossSpec",
    "MAELoss",
    "MAEPearsonLoss",
    "MSELoss",
    "NashSutcliffeLoss",
    "NormInNormLoss",
    "PearsonLoss",
    "RankNContrastLoss",
    "RankSimLoss",
    "RegressionLoss",
    "register",
]
