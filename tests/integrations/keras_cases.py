"""Batches and settings on which the loss of Keras is compared with ours."""

import math
from typing import Any

import numpy as np

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({}, "one target"),
    "weighted": ({"alpha": 0.1, "weights": (1.0, 0.5, 1.0)}, "rows weighted"),
    "two components": ({"alpha": math.inf, "components": ("mae", "diffnorm"), "form": "exp"}, "labels weighted"),
    "largest": ({"alpha": 0.0}, "two targets"),
    "large labels": ({"alpha": 0.5}, "large labels"),
    "constant": ({}, "constant labels"),
    "nothing counts": ({}, "nothing counts"),
}
"""Arguments of the loss by the name of the case, and the batch that it gets."""


def make_batch(kind: str, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return predictions, labels and weights."""
    random = np.random.default_rng(0)
    shape = (40, 1 if kind == "one target" else 2)
    target = random.normal(size=shape)
    pred = target + 0.3 * random.normal(size=shape)
    weight: np.ndarray | None = None
    if kind == "large labels":
        pred, target = pred + 1000, target + 1000
    elif kind == "constant labels":
        target = np.ones(shape)
    elif kind == "rows weighted":
        weight = random.integers(0, 3, 40)
    elif kind == "labels weighted":
        weight = random.integers(0, 3, shape) * np.array([1, 0])  # the second target has none
        target[weight == 0] = np.nan
    elif kind == "nothing counts":
        weight = np.zeros(40)
    return pred.astype(dtype), target.astype(dtype), None if weight is None else weight.astype(dtype)
