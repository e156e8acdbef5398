"""GAR's gradient and a positive curvature for Newton steps, from the moments of all rows at once.

Boosting libraries want two numbers for each row: the slope of the loss by its prediction, and a curvature that limits the step. The
slope is GAR's gradient, in the closed form of :mod:`gar.functional.moments`. The curvature is that of a parabola that touches
the loss and lies above it, component by component, each multiplied by the slope of the loss by that component:

- ``|e|`` lies below the parabola ``e^2 / (2 |e_0|) + |e_0| / 2``, so its curvature is ``1 / |e_0|``. A row that is nearly right
  would hold back its whole leaf, so it takes the mean absolute error for its own: above for leaves, if not for every row.
- ``Var(e)`` is a parabola, of curvature ``2 / n``.
- ``1 - rho`` has the curvature ``1 / S f_bar^2`` across the direction of the predictions, and none along it.
- The aggregation is a concave function of the components for ``alpha >= 1``, which only helps, and is left out. For smaller alpha
  it is not, but the components fall together on the way down.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dasum

from gar.functional.formulas import (
    ARRAYS,
    Number,
    Spreads,
    attention,
    gradient_coefficients,
    log_power_mean,
    mean_components,
    spreads_of,
    weighted_components,
)
from gar.functional.gar import GARSettings
from gar.functional.moments import Moments, ShiftedSums

UNIT = float(np.finfo(np.float64).eps)
_BLOCK = 9984
"""RowGroups that are worked on at a time, so that what is in between stays in the cache. From ten thousand on, BLAS starts threads,
which cost more than they save."""
_WIDE = 32768
"""The same for what is done without BLAS."""
_LOOKS = 16
"""Blocks whose signs are looked at, of many."""


class Derivatives(NamedTuple):
    """GAR of all rows, its gradient by the predictions, and the curvature; the latter two of the shape of the predictions."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray


class RowGroups:
    """How many rows there are, how often each counts, and the groups that pairs must not leave."""

    def __init__(self, count: int, weight: np.ndarray | None, codes: np.ndarray | None) -> None:
        self.count, self.weight, self._codes = count, weight, codes
        self.size = float(count) if weight is None else float(weight.sum())
        self._sizes = np.array([self.size]) if codes is None else np.bincount(codes, weight)

    def blocks(self, length: int) -> Iterator[slice]:
        """Pieces to work on one after the other."""
        return (slice(start, min(start + length, self.count)) for start in range(0, self.count, length))

    def weighted(self, values: np.ndarray, block: slice) -> np.ndarray:
        return values if self.weight is None else self.weight[block] * values

    def guess(self, values: np.ndarray) -> np.ndarray:
        """The mean of every group, or that of the first rows for all: sums are corrected for what is left over."""
        if self.weight is None and self._codes is None:
            return np.array([values[:_BLOCK].mean(dtype=np.float64)])
        weighted = values if self.weight is None else self.weight * values
        sums = np.array([weighted.sum()]) if self._codes is None else np.bincount(self._codes, weighted)
        return np.asarray(sums / (self._sizes + (self._sizes == 0)))

    def of_each(self, means: np.ndarray, block: slice) -> np.ndarray:
        """The means ``(..., groups)`` that each row is compared with."""
        return means if self._codes is None else means[..., self._codes[block]]

    def overall(self, means: np.ndarray) -> np.ndarray:
        """The mean of these ``(..., groups)`` over all rows."""
        return np.asarray(means @ self._sizes / self.size)


class Column:
    """One target: its moments, and its derivatives.

    Sums are of values minus a guess of their mean, corrected for the mean that is left over, so one walk gives all of them. On the
    way centred predictions and errors are kept where curvature and gradient shall be, in their precision, and then become these.
    """

    @np.errstate(all="ignore")  # what is not finite shows in the moments
    def __init__(self, pred: np.ndarray, target: np.ndarray, rows: RowGroups, kept: np.ndarray) -> None:
        self._rows, self._kept = rows, kept
        self._values, self._ones = np.empty((2, min(_BLOCK, rows.count))), np.ones(min(_BLOCK, rows.count))
        guess = rows.guess(pred)
        self._means = np.array([guess, guess - rows.guess(target)])
        sums = ShiftedSums(*np.sum([self._sums(pred[block], target[block], block) for block in rows.blocks(_BLOCK)], 0))
        self._rest = np.array([sums.pred, sums.error]) / rows.size
        self.moments = sums.moments(rows.size, *rows.overall(self._means))
        self._means += self._rest[:, None]

    def balance(self) -> float:
        """The share of errors above zero minus that below; of many rows, those of some blocks, spread evenly, are looked at."""
        blocks = list(self._rows.blocks(_BLOCK))
        looks = [(np.sign(self._kept[1, block]), block) for block in blocks[:: -(-len(blocks) // _LOOKS)]]
        signs = sum(float(self._rows.weighted(sign, block).sum()) for sign, block in looks)
        count = sum(float(self._rows.weighted(np.ones_like(sign), block).sum()) for sign, block in looks)
        return signs / (count or 1.0)

    def _sums(self, pred: np.ndarray, target: np.ndarray, block: slice) -> list[float]:
        """Return the :class:`ShiftedSums` of a block, as a list, and keep its errors and shifted predictions."""
        rows, values, ones = self._rows, self._values[:, : len(pred)], self._ones[: len(pred)]
        values[0], values[1] = pred, target
        error = np.subtract(values[0], values[1], out=values[1])
        self._kept[1, block] = error
        absolute = dasum(rows.weighted(error, block))
        values -= rows.of_each(self._means, block)
        self._kept[0, block] = values[0]
        f, e = rows.weighted(values, block)
        # BLAS adds faster than numpy.
        return [absolute, f @ ones, e @ ones, e @ error, f @ values[0], f @ error]

    @np.errstate(all="ignore")
    def differentiate(self, numbers: Sequence[float]) -> None:
        """Turn the centred values into curvature and gradient, by the coefficients of :meth:`NewtonBatch.derivatives`."""
        by_sign, by_error, by_pred, by_absolute, everywhere, least = numbers
        dtype, length = self._kept.dtype, min(_WIDE, self._rows.count)
        # np.sign is slow: errors times something huge, cut at both limits, are the same. With numbers for limits that is slow, too.
        huge = float(np.sqrt(np.finfo(dtype).max))
        centre = (by_error * self._means[1] + by_pred * self._rest[0]).astype(dtype)
        low, high, floor = (np.full(length, value, dtype) for value in (-by_sign, by_sign, least))
        for block in self._rows.blocks(length):
            size = block.stop - block.start
            pred, error = self._kept[:, block]
            slope = error * huge
            np.minimum(np.maximum(slope, low[:size], out=slope), high[:size], out=slope)
            pred *= by_pred
            slope += pred
            np.divide(by_absolute, np.maximum(np.abs(error, out=pred), floor[:size], out=pred), out=pred)
            pred += everywhere
            error *= by_error
            error -= self._rows.of_each(centre, block)
            error += slope
            if self._rows.weight is not None:
                self._kept[:, block] *= self._rows.weight[block]


class NewtonBatch:
    """All rows of a round, ready to be differentiated; predictions and labels have shape ``(rows, targets)``."""

    def __init__(self, pred: np.ndarray, target: np.ndarray, rows: RowGroups, dtype: type[np.floating] = np.float64) -> None:
        self._kept = np.empty((pred.shape[1], 2, rows.count), dtype)
        self._columns = [Column(pred[:, k], target[:, k], rows, kept) for k, kept in enumerate(self._kept)]
        self.moments = Moments(*map(np.array, zip(*(column.moments for column in self._columns), strict=True)))

    def spread_reached(self) -> float:
        """Variance of predictions as a share of what a least-squares rescaling would give them: the least of all targets.

        With ``K = S f_bar y_bar`` that rescaling is by ``K / F``. Predictions that do not follow labels at all have no such scale
        and count as 1; constant ones have reached nothing.
        """
        covariance = self.moments.pred - self.moments.cross
        follows = covariance > 0
        shares = np.where(follows, self.moments.pred / np.where(follows, covariance, 1.0), 1.0)
        return float(np.where(self._spreads().defined, shares, 0.0).min())

    def imbalance(self) -> float:
        """How far predictions are from the level of the labels: 0 if half of them are too high, 1 if all or none are."""
        return max(abs(column.balance()) for column in self._columns)

    def _spreads(self, eps: float = GARSettings.eps) -> Spreads:
        return spreads_of(self.moments, eps=eps, unit=UNIT, xp=ARRAYS)

    @np.errstate(all="ignore")  # what is not finite shows in the result
    def value(self, alpha: float, settings: GARSettings) -> float:
        """GAR alone."""
        return float(log_power_mean(self._components(settings)[2], alpha, xp=ARRAYS))

    def _components(self, settings: GARSettings) -> tuple[Number, list[Number], list[Number]]:
        """Each target's part in the mean over targets, the finished components, and their logarithms."""
        part, means = mean_components(self.moments, np.ones(len(self._columns)), settings, self._spreads(settings.eps), ARRAYS)
        components = weighted_components(means, settings)
        return part, components, [np.log(component) for component in components]

    @np.errstate(all="ignore")
    def derivatives(self, alpha: float, settings: GARSettings, *, normalised: bool = False) -> Derivatives:
        """GAR and its derivatives, which use up the batch; ``normalised`` multiplies those of each target by what makes its largest
        curvature 1."""
        m = self.moments
        part, components, logs = self._components(settings)
        slopes = [p / component for p, component in zip(attention(logs, alpha, xp=ARRAYS), components, strict=True)]
        heights = [weight * slope * part for weight, slope in zip(settings.all_weights, slopes, strict=True)]
        by_absolute, everywhere = self._curvatures(heights, settings)
        least = m.absolute / m.size + settings.eps
        factor = 1.0 / (by_absolute / least + everywhere) if normalised else np.ones_like(part)
        by_vectors = gradient_coefficients(m, part, slopes, settings, self._spreads(settings.eps), ARRAYS)
        numbers = (*(factor * number for number in (*by_vectors, by_absolute, everywhere)), least)
        for k, column in enumerate(self._columns):
            column.differentiate([float(number[k]) for number in numbers])
        return Derivatives(float(log_power_mean(logs, alpha, xp=ARRAYS)), self._kept[:, 1].T, self._kept[:, 0].T)

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
                everywhere = everywhere + np.where(self._spreads(settings.eps).defined, height / m.pred, 0.0)
        return by_absolute, everywhere
