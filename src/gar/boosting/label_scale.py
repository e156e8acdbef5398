"""Labels in a unit that both libraries can work with."""

from typing import NamedTuple

import numpy as np

from gar.functional.formulas import rounding_noise

SMALL, LARGE = 1e-3, 1e12
"""Standard deviations of labels that are left alone. Gains of splits are in squares of the labels' unit: XGBoost makes none that
gains less than 1e-6, and a million rows of larger labels would leave single precision. GAR's ``eps`` is 1e-7 besides."""
FAR = 1e4
"""Labels whose level is so many deviations away from 0 are trained without it: single precision leaves too little of the rest."""


class Unit(NamedTuple):
    """Trees are grown on ``(y - level) / scale``: one level and one scale per target."""

    level: np.ndarray
    scale: np.ndarray

    def of(self, y: np.ndarray) -> np.ndarray:
        """Labels in this unit."""
        return np.asarray((y - self.level) / self.scale)

    def undone(self, pred: np.ndarray) -> np.ndarray:
        """Predictions in the unit of the labels."""
        return np.asarray(self.level + self.scale * pred)


def unit_of(y: np.ndarray, weight: np.ndarray | None, median: np.ndarray) -> Unit:
    """The unit for labels ``(rows,)`` or ``(rows, targets)``, which is that of ordinary labels themselves.

    A far level is taken off, which changes no component of GAR. A deviation that is too small or too large becomes one between
    0.5 and 1; alpha then means what it means for standardised labels. Constant labels are left for the objective to refuse.
    """
    deviation = _deviation(y, weight)
    varies = deviation > rounding_noise(median, float(np.finfo(np.float64).eps))
    is_scaled = varies & ((deviation < SMALL) | (deviation > LARGE))
    is_far = varies & (np.abs(median) > FAR * deviation)
    power = np.ldexp(1.0, np.frexp(deviation)[1])  # a power of two rounds no label
    return Unit(np.where(is_scaled | is_far, median, 0.0), np.where(is_scaled, power, 1.0))


def _deviation(y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Standard deviations, of labels as large or small as numbers can be: their squares are only taken in units of the largest."""
    largest = np.abs(y).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    shares = y / largest
    rest = shares - np.average(shares, axis=0, weights=weight)
    return np.asarray(largest * np.sqrt(np.average(rest**2, axis=0, weights=weight)))
