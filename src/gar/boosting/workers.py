"""Distributed training: a library calls an objective with the rows of one worker, and GAR compares those of all.

XGBoost has sums over its workers, and moments are sums. LightGBM offers none to an objective, so it is refused.
"""

import sys
from typing import Any

import numpy as np

from gar.errors import InputError

_MACHINES = ("num_machines", "num_machine")
"""LightGBM's names for the number of its workers."""


def is_distributed() -> bool:
    """Return True within a training of XGBoost that has several workers, such as one of ``xgboost.dask``."""
    xgboost = sys.modules.get("xgboost")
    return xgboost is not None and xgboost.collective.is_distributed()


def over_workers(values: np.ndarray) -> np.ndarray:
    """Return sums over all workers, from those of this one: the same if it is alone. All workers must call it equally often."""
    if not is_distributed():
        return values
    collective = sys.modules["xgboost"].collective
    return np.asarray(collective.allreduce(values, collective.Op.SUM)).reshape(values.shape)


def refuse_lightgbm_workers(data: Any) -> None:
    """Raise for the data set of one of several workers of LightGBM.

    Only the parameters of a data set say how many there are: LightGBM's library has no function that could be asked instead.
    """
    if not type(data).__module__.startswith("lightgbm."):
        return
    machines = max(int((data.params or {}).get(name, 1)) for name in _MACHINES)
    if machines > 1:
        raise InputError(
            f"LightGBM trains with {machines} machines and calls an objective with the rows of one of them, without a way to sum "
            "over all: GAR would compare rows of one machine only. Use one machine, or XGBoost, which has such sums"
        )
