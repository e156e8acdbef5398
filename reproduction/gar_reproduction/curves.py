"""How close fitted curves are to the truth, and their slopes to its slopes, which the paper never measures."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from gar_reproduction.summary import Summary


def _squared_sine_slope(x: np.ndarray) -> np.ndarray:
    return np.asarray((2 * x * np.sin(x) + x**2 * np.cos(x)) / np.mean(x**2))


SLOPES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {"sine": np.cos, "squared-sine": _squared_sine_slope}
"""Derivatives of the paper's two curves at their own points."""


class Fit(NamedTuple):
    """One curve, fitted with several seeds; measured arrays have one value per seed."""

    x: np.ndarray
    y: np.ndarray
    predictions: np.ndarray
    """``(seeds, points)``."""
    error: np.ndarray
    """Mean absolute error on points that were not trained on."""
    correlation: np.ndarray
    """Pearson's, between prediction and truth at all points, as in the paper's study of depth."""
    slope_cosine: np.ndarray
    """Cosine of the angle between the slopes of fit and truth, on points that were not trained on; 1 is perfect."""
    slope_error: np.ndarray
    """Length of their difference over the length of the true slopes; 0 is perfect, 1 is a constant function."""


def fit_of(summary: Summary, task: str) -> Fit | None:
    """Return the fit that a summary holds; None if training diverged with every combination."""
    extras = summary.extras
    predictions, slopes = extras["predictions"].astype(np.float64), extras["slopes"].astype(np.float64)
    return None if len(predictions) == 0 else measured(task, extras["x"], extras["y"], extras["trained"], predictions, slopes)


def measured(task: str, x: np.ndarray, y: np.ndarray, trained: np.ndarray, predictions: np.ndarray, slopes: np.ndarray) -> Fit:
    """Compare fits ``(seeds, points)`` and their slopes with the curve; ``trained`` marks the points that they were fitted to."""
    unseen = ~trained
    true = SLOPES[task](x)[unseen]
    return Fit(
        x=x,
        y=y,
        predictions=predictions,
        error=np.abs(predictions - y)[:, unseen].mean(1),
        correlation=np.array([_correlation(one, y) for one in predictions]),
        slope_cosine=np.array([_cosine(one[unseen], true) for one in slopes]),
        slope_error=np.linalg.norm(slopes[:, unseen] - true, axis=1) / np.linalg.norm(true),
    )


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    """Return the cosine of the angle between two vectors; 0 if one has no length."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths > 0 else 0.0


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return _cosine(one - one.mean(), other - other.mean())
