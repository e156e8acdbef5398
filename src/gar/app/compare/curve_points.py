"""The paper's two curves, computed from their formulas."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class CurvePoints(NamedTuple):
    """Points ``(points, 1)`` of a curve, with what a reader should know of them."""

    title: str
    x: np.ndarray
    y: np.ndarray
    note: str


def sine() -> tuple[np.ndarray, np.ndarray]:
    """Return ``y = sin(x)`` for x from ``-10 pi`` to ``10 pi`` in steps of 0.1: 629 points."""
    x = np.arange(-10 * np.pi, 10 * np.pi, 0.1)
    return x[:, None], np.sin(x)[:, None]


def squared_sine(*, step: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return ``y = x^2 sin(x) / mean(x^2)``, ``x = sign(t) sqrt(|t|)``, t from -1024 to 1024.

    Args:
        step: of t; 1 gives the 2048 points of the authors' file, 0.1 the 20480 of the paper's text.
    """
    t = np.arange(round(2048 / step)) * step - 1024.0
    x = np.sign(t) * np.sqrt(np.abs(t))
    return x[:, None], (x**2 * np.sin(x) / np.mean(x**2))[:, None]


CURVES: Mapping[str, CurvePoints] = {
    "sine": CurvePoints("Sine", *sine(), "x from -10 pi to 10 pi in steps of 0.1, y = sin(x); a random half is trained on."),
    "squared-sine": CurvePoints(
        "Squared sine",
        *squared_sine(),
        "The paper's text says steps of 0.1, which makes 20480 points; its authors used steps of 1, which makes these 2048.",
    ),
}
