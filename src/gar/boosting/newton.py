"""GAR's gradient and a positive curvature for Newton steps, from the moments of all rows at once.

Boosting libraries take two numbers for each row: the slope of the loss by its prediction, and a curvature that limits the step. The
slope is GAR's gradient, in the closed form of :mod:`gar.functional.moments`. The curvature is that of a parabola that touches
the loss and lies above it, component by component, each multiplied by the slope of the loss by that component:

- ``|e|`` lies below the parabola ``e^2 / (2 |e_0|) + |e_0| / 2``, so its curvature is ``1 / |e_0|``. A row that is nearly right
  would hold back its whole leaf, so smaller errors count as the mean absolute error: the parabola then lies above the loss of a
  leaf, though not of every row.
- ``Var(e)`` is a parabola, of curvature ``2 / n``.
- ``1 - rho`` has the curvature ``1 / S f_bar^2`` across the direction of the predictions, and none along it.
- The curvature of the aggregation is left out. For ``alpha >= 1`` it is concave in the components, so the bound stays one. For a
  smaller alpha it is not, but the components fall together.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dasum

from gar.boosting.workers import over_workers
from gar.functional.formulas import (
    ARRAYS,
    Moments,
    Number,
    attention,
    gradient_coefficients,
    log_power_mean,
    mean_components,
    spreads_of,
    weighted_components,
)
from gar.functional.gar import GARSettings
from gar.functional.moments import ShiftedSums

UNIT = float(np.finfo(np.float64).eps)
_BLOCK = 9984
"""Rows of a block, so that temporary arrays stay in the cache. From ten thousand rows on, BLAS starts threads, which cost more than
they save."""
_BLOCK_WITHOUT_BLAS = 32768
"""Rows of a block of operations that do not call BLAS."""
_SIGN_BLOCKS = 16
"""The largest number of blocks whose signs are counted."""


class Derivatives(NamedTuple):
    """GAR of all rows, its gradient by the predictions, and the curvature; the latter two of the shape of the predictions."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray


class RowGroups:
    """The number of rows, their weights, and the groups within which pairs are formed.

    In distributed training these are the rows of one worker; sizes and means are those of all.
    """

    def __init__(self, count: int, weight: np.ndarray | None, codes: np.ndarray | None) -> None:
        self.count, self.weight, self._codes = count, weight, codes
        self.size = float(over_workers(np.array([float(count) if weight is None else float(weight.sum())]))[0])
        self._sizes = np.array([self.size]) if codes is None else np.bincount(codes, weight)

    def blocks(self, length: int) -> Iterator[slice]:
        """Yield consecutive slices of ``length`` rows; the last one may be shorter."""
        return (slice(start, min(start + length, self.count)) for start in range(0, self.count, length))

    def weighted(self, values: np.ndarray, block: slice) -> np.ndarray:
        return values if self.weight is None else self.weight[block] * values

    def approximate_means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of every group; without groups, that of the first block, which sums are corrected for."""
        if self._codes is None:
            weight = np.ones(min(_BLOCK, self.count)) if self.weight is None else self.weight[:_BLOCK]
            total, size = over_workers(np.array([weight @ values[:_BLOCK], weight.sum()]))
            return np.array([total / (size or 1.0)])
        sums = np.bincount(self._codes, values if self.weight is None else self.weight * values)
        return np.asarray(sums / (self._sizes + (self._sizes == 0)))

    def per_row(self, means: np.ndarray, block: slice) -> np.ndarray:
        """Return, for every row of a block, the mean of its group from ``(..., groups)``; one number without groups."""
        return means if self._codes is None else means[..., self._codes[block]]

    def overall(self, means: np.ndarray) -> np.ndarray:
        """Return the mean over all rows of group means ``(..., groups)``."""
        return np.asarray(means @ self._sizes / self.size)


class Column:
    """One target: its moments, and its derivatives.

    One pass sums values minus approximate means, and corrects the sums for the means that remain. It writes shifted predictions and
    errors into ``buffer``, ``(2, rows)``, whose dtype is that of the derivatives: :meth:`differentiate` replaces them by curvature
    and gradient.
    """

    @np.errstate(all="ignore")  # what is not finite shows in the moments
    def __init__(self, pred: np.ndarray, target: np.ndarray, rows: RowGroups, buffer: np.ndarray) -> None:
        self._rows, self._buffer = rows, buffer
        self._values, self._ones = np.empty((2, min(_BLOCK, rows.count))), np.ones(min(_BLOCK, rows.count))
        mean = rows.approximate_means(pred)
        self._means = np.array([mean, mean - rows.approximate_means(target)])
        sums = np.sum([[0.0] * 6, *(self._sums(pred[block], target[block], block) for block in rows.blocks(_BLOCK))], 0)
        sums = ShiftedSums(*over_workers(sums))
        self._remaining_means = np.array([sums.pred, sums.error]) / rows.size
        self.moments = sums.moments(rows.size, *rows.overall(self._means))
        self._means += self._remaining_means[:, None]

    def _sums(self, pred: np.ndarray, target: np.ndarray, block: slice) -> list[float]:
        """Return the :class:`ShiftedSums` of a block, as a list, and write its shifted predictions and errors into the buffer."""
        rows, values, ones = self._rows, self._values[:, : len(pred)], self._ones[: len(pred)]
        values[0], values[1] = pred, target
        error = np.subtract(values[0], values[1], out=values[1])
        self._buffer[1, block] = error
        absolute = dasum(rows.weighted(error, block))
        values -= rows.per_row(self._means, block)
        self._buffer[0, block] = values[0]
        f, e = rows.weighted(values, block)
        # BLAS adds faster than numpy.
        return [absolute, f @ ones, e @ ones, e @ error, f @ values[0], f @ error]

    def balance(self) -> float:
        """Return the share of errors above zero minus that below; of many rows, evenly spaced blocks are a sample."""
        blocks = list(self._rows.blocks(_BLOCK))
        sampled = [(np.sign(self._buffer[1, block]), block) for block in blocks[:: -(-len(blocks) // _SIGN_BLOCKS) or 1]]
        signs = sum(float(self._rows.weighted(sign, block).sum()) for sign, block in sampled)
        count = sum(float(self._rows.weighted(np.ones_like(sign), block).sum()) for sign, block in sampled)
        signs, count = over_workers(np.array([signs, count]))
        return float(signs / (count or 1.0))

    @np.errstate(all="ignore")
    def differentiate(self, coefficients: Sequence[float]) -> None:
        """Replace the buffer by curvature and gradient, with the coefficients of :meth:`NewtonBatch.derivatives`."""
        by_sign, by_error, by_pred, by_absolute, constant, least = coefficients
        dtype, length = self._buffer.dtype, min(_BLOCK_WITHOUT_BLAS, self._rows.count) or 1
        # np.sign is slow: errors times a huge number, clipped at both limits, are the same. Scalars as limits are slow, too.
        huge = float(np.sqrt(np.finfo(dtype).max))
        centre = (by_error * self._means[1] + by_pred * self._remaining_means[0]).astype(dtype)
        low, high, floor = (np.full(length, value, dtype) for value in (-by_sign, by_sign, least))
        for block in self._rows.blocks(length):
            size = block.stop - block.start
            pred, error = self._buffer[:, block]
            slope = error * huge
            np.minimum(np.maximum(slope, low[:size], out=slope), high[:size], out=slope)
            pred *= by_pred
            slope += pred
            np.divide(by_absolute, np.maximum(np.abs(error, out=pred), floor[:size], out=pred), out=pred)
            pred += constant
            error *= by_error
            error -= self._rows.per_row(centre, block)
            error += slope
            if self._rows.weight is not None:
                self._buffer[:, block] *= self._rows.weight[block]


class NewtonBatch:
    """All rows of a round, ready to be differentiated; predictions and labels have shape ``(rows, targets)``."""

    @np.errstate(all="ignore")  # what is not finite shows in the moments
    def __init__(self, pred: np.ndarray, target: np.ndarray, rows: RowGroups, dtype: type[np.floating] = np.float64) -> None:
        self._buffer = np.empty((pred.shape[1], 2, rows.count), dtype)
        self._columns = [Column(pred[:, k], target[:, k], rows, buffer) for k, buffer in enumerate(self._buffer)]
        self.moments = Moments(*map(np.array, zip(*(column.moments for column in self._columns), strict=True)))
        self._spreads = spreads_of(self.moments, eps=GARSettings.eps, unit=UNIT, xp=ARRAYS)

    def variance_share(self) -> float:
        """Return the variance of predictions as a share of what a least-squares rescaling would give it: the least of all targets.

        With ``K = S f_bar y_bar`` that rescaling is by ``K / F``. Predictions without a positive covariance with the labels have no
        such scale and count as 1; constant ones have a share of 0.
        """
        covariance = self.moments.pred - self.moments.cross
        is_positive = covariance > 0
        shares = np.where(is_positive, self.moments.pred / np.where(is_positive, covariance, 1.0), 1.0)
        return float(np.where(self._spreads.defined, shares, 0.0).min())

    def imbalance(self) -> float:
        """Return how far predictions are from the level of the labels: 0 if half of them are too high, 1 if all or none are."""
        return max(abs(column.balance()) for column in self._columns)

    @np.errstate(all="ignore")  # what is not finite shows in the result
    def value(self, alpha: float, settings: GARSettings) -> float:
        """Return GAR alone."""
        return float(log_power_mean(self._components(settings)[2], alpha, xp=ARRAYS))

    def _components(self, settings: GARSettings) -> tuple[Number, list[Number], list[Number]]:
        """Return each target's part in the mean over targets, the weighted components, and their logarithms."""
        part, means, _ = mean_components(self.moments, np.ones(len(self._columns)), settings, self._spreads, ARRAYS)
        components = weighted_components(means, settings)
        return part, components, [np.log(component) for component in components]

    @np.errstate(all="ignore")
    def derivatives(self, alpha: float, settings: GARSettings, *, normalised: bool = False) -> Derivatives:
        """Return GAR and its derivatives, which overwrite the batch.

        ``normalised`` multiplies the derivatives of each target by the factor that makes its largest curvature 1.
        """
        m = self.moments
        part, components, logs = self._components(settings)
        slopes = [p / component for p, component in zip(attention(logs, alpha, xp=ARRAYS), components, strict=True)]
        by_absolute, constant = self._curvatures(part, slopes, settings)
        least = m.absolute / m.size + settings.eps
        factor = 1.0 / (by_absolute / least + constant) if normalised else np.ones_like(part)
        of_gradient = gradient_coefficients(m, part, slopes, settings, self._spreads, ARRAYS)
        coefficients = (*(factor * one for one in (*of_gradient, by_absolute, constant)), least)
        for k, column in enumerate(self._columns):
            column.differentiate([float(one[k]) for one in coefficients])
        return Derivatives(float(log_power_mean(logs, alpha, xp=ARRAYS)), self._buffer[:, 1].T, self._buffer[:, 0].T)

    def _curvatures(self, part: Number, slopes: list[Number], settings: GARSettings) -> tuple[Number, Number]:
        """Return, per target, the numerator over absolute errors and the constant term of the curvature."""
        m = self.moments
        by_absolute, constant = np.zeros((2, len(self._columns)))
        for name, weight, slope in zip(settings.components, settings.all_weights, slopes, strict=True):
            height = weight * slope * part
            if name == "mae":
                by_absolute = height / m.size
            elif name == "diff":
                constant = constant + 2.0 * height / m.size
            else:
                constant = constant + np.where(self._spreads.defined, height / m.pred, 0.0)
        return by_absolute, constant
