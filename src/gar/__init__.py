"""Regression that gets the shape right: Gradient Aligned Regression and its rivals.

Names are imported where they are first used, so that ``import gar`` itself costs nothing.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gar.boosting import GARBoostRegressor as GARBoostRegressor
    from gar.errors import InputError as InputError
    from gar.estimators import GARRegressor as GARRegressor, GARRegressorCV as GARRegressorCV
    from gar.losses import (
        ConcordanceLoss as ConcordanceLoss,
        ConRLoss as ConRLoss,
        FocalMAELoss as FocalMAELoss,
        FocalMSELoss as FocalMSELoss,
        GARLoss as GARLoss,
        HuberLoss as HuberLoss,
        KlingGuptaLoss as KlingGuptaLoss,
        MAELoss as MAELoss,
        MAEPearsonLoss as MAEPearsonLoss,
        MSELoss as MSELoss,
        NashSutcliffeLoss as NashSutcliffeLoss,
        NormInNormLoss as NormInNormLoss,
        PearsonLoss as PearsonLoss,
        RankNContrastLoss as RankNContrastLoss,
        RankSimLoss as RankSimLoss,
    )

_EXPORTS = {
    "gar.boosting": ("GARBoostRegressor",),
    "gar.errors": ("InputError",),
    "gar.estimators": ("GARRegressor", "GARRegressorCV"),
    "gar.losses": (
        *("ConRLoss", "ConcordanceLoss", "FocalMAELoss", "FocalMSELoss", "GARLoss", "HuberLoss", "KlingGuptaLoss", "MAELoss"),
        *("MAEPearsonLoss", "MSELoss", "NashSutcliffeLoss", "NormInNormLoss", "PearsonLoss", "RankNContrastLoss", "RankSimLoss"),
    ),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}
_MODULES = [module.name for module in iter_modules(__path__) if not module.name.startswith("_")]

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(f"gar.{name}")
    raise AttributeError(f"module 'gar' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
