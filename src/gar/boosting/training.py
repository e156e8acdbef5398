"""Training with GAR in any tree library: labels on a scale that it can work with, gradients whose sums are exact."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gar.boosting.inputs import from_library
from gar.boosting.library import Objective, StoppingSettings, TrainingTask, TreeLibrary
from gar.boosting.objective import GARObjective
from gar.functional.formulas import rounding_noise

SMALLEST_DEVIATION, LARGEST_DEVIATION = 1e-3, 1e12
"""Labels with a standard deviation between these are not scaled. Gains of splits are in squares of the labels' unit: XGBoost makes
no split that gains less than 1e-6, and sums over a million rows of larger labels would overflow single precision. GAR's ``eps`` is
1e-7 besides."""
FAR = 1e4
"""Labels are centred if their median is more than this number of standard deviations away from 0, where single precision would
leave too few digits for their differences."""
_BITS = 16
"""Bits that are kept of a row's gradient: sums of up to 256 rows are then exact in single precision, which libraries use."""


class LabelScale(NamedTuple):
    """Trees are trained on ``(y - center) / scale``, with one center and one scale per target."""

    center: np.ndarray
    scale: np.ndarray

    def transform(self, y: np.ndarray) -> np.ndarray:
        """Return labels on this scale."""
        return np.asarray((y - self.center) / self.scale)

    def inverse_transform(self, pred: np.ndarray) -> np.ndarray:
        """Return predictions in the units of the labels."""
        return np.asarray(self.center + self.scale * np.asarray(pred, dtype=np.float64))


@dataclass(frozen=True)
class TrainedTrees:
    """The library's own model, how many of its rounds to use, and what turns its outputs into predictions of the labels."""

    library: TreeLibrary
    booster: Any
    rounds: int
    offset: Any
    label_scale: LabelScale

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return predictions in the units of the labels."""
        return self.label_scale.inverse_transform(self.offset + self.library.predict(self.booster, x, self.rounds))


def train(library: TreeLibrary, task: TrainingTask, settings: StoppingSettings) -> TrainedTrees:
    """Train trees from the median of the labels, on a scale that the library can work with."""
    rows, valid = task.rows, task.valid
    median = GARObjective.starting_score(rows.y, rows.weight)
    scale = label_scale(rows.y, rows.weight, median)
    start = scale.transform(median).tolist()
    rows = rows._replace(y=scale.transform(rows.y))
    valid = None if valid is None else valid._replace(y=scale.transform(valid.y))
    with library.translate_errors():
        trained = library.train(TrainingTask(rows, valid, _rounded(task.objective), task.metric, start), settings)
    return TrainedTrees(library, *trained, scale)


def label_scale(y: np.ndarray, weight: np.ndarray | None, median: np.ndarray) -> LabelScale:
    """Return the scale for labels ``(rows,)`` or ``(rows, targets)``; ordinary labels are left as they are.

    Labels far from 0 are centred, which changes no component of GAR. A standard deviation that is too small or too large becomes
    one between 0.5 and 1; alpha then means what it means for standardised labels. Constant labels are left to the objective, which
    rejects them.
    """
    deviation = _deviation(y, weight)
    varies = deviation > rounding_noise(median, float(np.finfo(np.float64).eps))
    is_scaled = varies & ((deviation < SMALLEST_DEVIATION) | (deviation > LARGEST_DEVIATION))
    is_far = varies & (np.abs(median) > FAR * deviation)
    power = np.ldexp(1.0, np.frexp(deviation)[1])  # dividing by a power of two is exact
    return LabelScale(np.where(is_scaled | is_far, median, 0.0), np.where(is_scaled, power, 1.0))


def _deviation(y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return standard deviations of labels of any magnitude: squares are taken relative to the largest, so none overflows."""
    largest = np.abs(y).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    shares = y / largest
    centred = shares - np.average(shares, axis=0, weights=weight)
    return np.asarray(largest * np.sqrt(np.average(centred**2, axis=0, weights=weight)))


def _rounded(objective: Objective) -> Objective:
    """Return the objective with gradients rounded to few bits, before weights, so that their sums are exact.

    Splits often tie in small tables, and rounding errors of sums would decide. With exact sums, splits depend neither on the order
    of rows nor on threads, and a row that counts twice equals two rows.
    """

    def rounded(pred: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        arrays = from_library(pred, data, None)
        weight = 1.0 if arrays.weight is None else arrays.weight[:, None]
        exact = objective(arrays.target, arrays.pred, arrays.weight)  # in double precision
        gradient, curvature = (weight * _few_bits(v.reshape(arrays.pred.shape) / weight) for v in exact)
        return gradient.reshape(pred.shape), curvature.reshape(pred.shape)

    return rounded


def _few_bits(values: np.ndarray) -> np.ndarray:
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(fraction, _BITS)), exponent - _BITS))
