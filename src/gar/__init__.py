"""Regression that gets the shape right: Gradient Aligned Regression and its rivals.

Names are imported where they are first used, so that ``import gar`` itself costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gar.boosting import GARBoostRegressor as GARBoostRegressor
    from gar.errors import InputError as InputError
    from gar.estimators import GARRegressor as GARRegressor
    from gar.estimators import GARRegressorCV as GARRegressorCV
    from gar.losses import ConRLoss as ConRLoss
    from gar.losses import FocalMAELoss as FocalMAELoss
    from gar.losses import FocalMSELoss as FocalMSELoss
    from gar.losses import GARLoss as GARLoss
    from gar.losses import HuberLoss as HuberLoss
    from gar.losses import MAELoss as MAELoss
    from gar.losses import MAEPearsonLoss as MAEPearsonLoss
    from gar.losses import MSELoss as MSELoss
    from gar.losses import RankNContrastLoss as RankNContrastLoss
    from gar.losses import RankSimLoss as RankSimLoss

_HOME = {
    "GARBoostRegressor": "gar.boosting",
    "InputError": "gar.errors",
    "GARRegressor": "gar.estimators",
    "GARRegressorCV": "gar.estimators",
    "ConRLoss": "gar.losses",
    "FocalMAELoss": "gar.losses",
    "FocalMSELoss": "gar.losses",
    "GARLoss": "gar.losses",
    "HuberLoss": "gar.losses",
    "MAELoss": "gar.losses",
    "MAEPearsonLoss": "gar.losses",
    "MSELoss": "gar.losses",
    "RankNContrastLoss": "gar.losses",
    "RankSimLoss": "gar.losses",
}
_MODULES = (
    "accumulation",
    "app",
    "boosting",
    "distributed",
    "errors",
    "estimators",
    "functional",
    "integrations",
    "losses",
    "metrics",
    "registry",
    "search",
    "stack",
    "statistics",
    "validation",
    "vision",
)

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(f"gar.{name}")
    raise AttributeError(f"module 'gar' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
