"""GAR's gradient and a positive curvature for Newton steps, from the moments of all rows at once.

Boosting libraries want two numbers for each row: the slope of the loss by its prediction, and a curvature that limits the step. The
slope is GAR's gradient, in the closed form of :mod:`gar.functional._closed_form`. The curvature is that of a parabola that touches
the loss and lies above it, component by component, each multiplied by the slope of the loss by that component:

- ``|e|`` lies below the parabola ``e^2 / (2 |e_0|) + |e_0| / 2``, so its curvature is ``1 / |e_0|``. A row that is nearly right
  would hold back its whole leaf, so it takes the mean absolute error for its own: above for leaves, if not for every row.
- ``Var(e)`` is a parabola, of curvature ``2 / n``.
- ``1 - rho`` has the curvature ``1 / S f_bar^2`` across the direction of the predictions, and none along it.
- The aggregation is a concave function of the components for ``alpha >= 1``, which only helps, and is left out. For smaller alpha
  it is not, but the components fall together on the way down.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gar.functional._closed_form import coefficients, over_columns_of
from gar.functional._components import GARSettings
from gar.functional._moments import Moments, is_correlation_defined
from gar.functional._numbers import ARRAYS, Number
from gar.functional.aggregation import attention, log_power_mean

UNIT = float(np.finfo(np.float64).eps)
_BLOCK = 32768
"""Rows that are worked on at a time, so that what is in between stays in the cache."""


class Derivatives(NamedTuple):
    """GAR of all rows, its gradient by the predictions, and the curvature; the latter two of the shape of the predictions."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray


class Rows:
    """How many rows there are, how often each counts, and the groups that pairs must not leave."""

    def __init__(self, count: int, weight: np.ndarray | None, codes: np.ndarray | None) -> None:
        self.count, self.weight, self._codes = count, weight, codes
        self.size = float(count) if weight is None else float(weight.sum())
        if codes is not None:
            self._groups = int(codes.max()) + 1
            self._sizes = np.bincount(codes, weight)

    def blocks(self) -> Iterator[slice]:
        """Pieces to work on one after the other; all at once with groups, whose means are better summed in one go."""
        step = _BLOCK if self._codes is None else self.count
        return (slice(start, start + step) for start in range(0, self.count, step))

    def weighted(self, values: np.ndarray, block: slice) -> np.ndarray:
        return values if self.weight is None else self.weight[block] * values

    def sums(self, values: np.ndarray, block: slice) -> np.ndarray:
        """The sum of every group, or of all rows as if they were one."""
        weighted = self.weighted(values, block)
        if self._codes is None:
            return np.array([weighted.sum()])
        return np.bincount(self._codes[block], weighted, self._groups)

    def means(self, sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums / (self.size if self._codes is None else self._sizes + (self._sizes == 0)))

    def of_each(self, means: np.ndarray, block: slice) -> np.ndarray:
        """The mean that each row is compared with."""
        return means if self._codes is None else means[self._codes[block]]


class Column:
    """One target: its moments, and a walk over its rows block by block."""

    @np.errstate(all="ignore")  # what is not finite shows in the moments
    def __init__(self, pred: np.ndarray, target: np.ndarray, rows: Rows) -> None:
        self._pred, self._target, self._rows = pred, target, rows
        sums = np.sum([[rows.sums(values, block) for values in self._raw(block)] for block in rows.blocks()], 0)
        self._means = rows.means(sums)
        balance, *products = np.sum([self._products(block) for block in rows.blocks()], 0)
        self.balance = float(balance / rows.size)
        self.moments = Moments(rows.size, *(sums.sum(1) / rows.size), *products)

    def _raw(self, block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predictions, labels and errors of a block."""
        pred, target = self._pred[block].astype(np.float64), self._target[block].astype(np.float64)
        return pred, target, pred - target

    def _centred(self, values: np.ndarray, mean: np.ndarray, block: slice) -> np.ndarray:
        return np.asarray(values - self._rows.of_each(mean, block))

    def _products(self, block: slice) -> np.ndarray:
        """The sum of the signs of errors, and the five sums of :mod:`gar.functional._moments`."""
        raw, weigh = self._raw(block), self._rows.weighted
        pred, target, error = (self._centred(values, mean, block) for values, mean in zip(raw, self._means, strict=True))
        signs, absolute = weigh(np.sign(raw[2]), block).sum(), weigh(np.abs(raw[2]), block).sum()
        weighted_pred = weigh(pred, block)
        squares = (weigh(error, block) @ error, weighted_pred @ pred, weigh(target, block) @ target, weighted_pred @ error)
        return np.array([signs, absolute, *squares])

    def fill(self, block: slice, numbers: list[Number], gradient: np.ndarray, curvature: np.ndarray) -> None:
        """Write the derivatives of a block: combinations of its vectors by the numbers of :meth:`Batch.derivatives`."""
        by_sign, by_error, by_pred, by_absolute, everywhere, least = numbers
        pred, _, error = self._raw(block)
        slope = by_sign * np.sign(error)
        slope += by_error * self._centred(error, self._means[2], block)
        slope += by_pred * self._centred(pred, self._means[0], block)
        gradient[:] = self._rows.weighted(slope, block)
        curvature[:] = self._rows.weighted(by_absolute / np.maximum(np.abs(error), least) + everywhere, block)


class Batch:
    """All rows of a round, ready to be differentiated; predictions and labels have shape ``(rows, targets)``."""

    def __init__(self, pred: np.ndarray, target: np.ndarray, rows: Rows) -> None:
        self._rows = rows
        self._columns = [Column(pred[:, k], target[:, k], rows) for k in range(pred.shape[1])]
        self.moments = Moments(*map(np.array, zip(*(column.moments for column in self._columns), strict=True)))

    def spread_reached(self) -> float:
        """Variance of predictions as a share of what a least-squares rescaling would give them: the least of all targets.

        With ``K = S f_bar y_bar`` that rescaling is by ``K / F``. Predictions that do not follow labels at all have no such scale
        and count as 1; constant ones have reached nothing.
        """
        covariance = self.moments.pred - self.moments.cross
        follows = covariance > 0
        shares = np.where(follows, self.moments.pred / np.where(follows, covariance, 1.0), 1.0)
        return float(np.where(self._varies(), shares, 0.0).min())

    def imbalance(self) -> float:
        """How far predictions are from the level of the labels: 0 if half of them are too high, 1 if all or none are."""
        return max(abs(column.balance) for column in self._columns)

    def _varies(self, eps: float = GARSettings.eps) -> np.ndarray:
        return np.asarray(is_correlation_defined(self.moments, eps=eps, unit=UNIT))

    @np.errstate(all="ignore")  # what is not finite shows in the result
    def value(self, alpha: float, settings: GARSettings) -> float:
        """GAR alone."""
        return float(log_power_mean(self._components(settings)[2], alpha, xp=ARRAYS))

    def _components(self, settings: GARSettings) -> tuple[Number, list[Number], list[Number]]:
        """Each target's part in the mean over targets, the finished components, and their logarithms."""
        part, components = over_columns_of(self.moments, np.ones(len(self._columns)), settings, UNIT, None, ARRAYS)
        return part, components, [np.log(component) for component in components]

    @np.errstate(all="ignore")
    def derivatives(self, alpha: float, settings: GARSettings, *, normalised: bool = False) -> Derivatives:
        """GAR and its derivatives; ``normalised`` multiplies those of each target by what makes its largest curvature 1."""
        m = self.moments
        part, components, logs = self._components(settings)
        slopes = [p / component for p, component in zip(attention(logs, alpha, xp=ARRAYS), components, strict=True)]
        heights = [weight * slope * part for weight, slope in zip(settings.all_weights, slopes, strict=True)]
        by_absolute, everywhere = self._curvatures(heights, settings)
        least = m.absolute / m.size + settings.eps
        factor = 1.0 / (by_absolute / least + everywhere) if normalised else np.ones_like(part)
        by_vectors = coefficients(m, part, slopes, settings, UNIT, ARRAYS)
        numbers = (*(factor * number for number in (*by_vectors, by_absolute, everywhere)), least)
        gradient, curvature = np.empty((2, len(self._columns), self._rows.count))
        for k, column in enumerate(self._columns):
            for block in self._rows.blocks():
                column.fill(block, [number[k] for number in numbers], gradient[k, block], curvature[k, block])
        return Derivatives(float(log_power_mean(logs, alpha, xp=ARRAYS)), gradient.T, curvature.T)

    def _curvatures(self, heights: list[Number], settings: GARSettings) -> tuple[Number, Number]:
        """Per target: what is divided by absolute errors, and what is the same for all rows."""
        m = self.moments
        by_absolute, everywhere = np.zeros((2, len(self._columns)))
        for name, height in zip(settings.components, heights, strict=True):
            if name == "mae":
                by_absolute = height / m.size
            elif name == "diff":
                everywhere = everywhere + 2.0 * height / m.size
            else:
                everywhere = everywhere + np.where(self._varies(settings.eps), height / m.pred, 0.0)
        return by_absolute, everywhere
