"""How columns are scaled: standardised, robust against outlying features, or with bounds for predictions."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gar.functional.formulas import rounding_noise

LARGEST = 1e150
"""The largest magnitude of features and labels: the sum of their squares is still a number of double precision."""

_CONSTANT_FEATURE_SCALE = 1e30
"""Scale of a feature that is constant in the training rows. No weight was trained on its variation, which may be huge in its own
units, so later values are scaled to almost zero. Finite, so that it can be written to any file."""


@dataclass(frozen=True)
class Scaling:
    """Standardisation of columns: ``(values - center) / scale``."""

    center: Tensor
    scale: Tensor

    @staticmethod
    def of(values: Tensor, weight: Tensor | None = None, *, constant: float = 1.0) -> "Scaling":
        """Return the scaling by mean and standard deviation (divided by n) of each column; NaN are ignored.

        Args:
            values: training rows, ``(rows, columns)``.
            weight: how often each row counts, ``(rows,)``.
            constant: the scale of a column that is constant, or has no values at all.
        """
        center = _mean(values, weight)
        scale = _mean((values - center).square(), weight).sqrt()
        return Scaling(center.nan_to_num(), proper_scale(scale, center, constant))

    def apply(self, values: Tensor) -> Tensor:
        """Scale values ``(..., columns)``."""
        return (values - self.center.to(values)) / self.scale.to(values)

    def undo(self, values: Tensor) -> Tensor:
        """Return scaled values ``(..., columns)`` to the units of the table."""
        return values * self.scale.to(values) + self.center.to(values)


@dataclass(frozen=True)
class BoundedScaling(Scaling):
    """A scaling of labels that keeps predictions within the range of known labels and a quarter of its width on both sides.

    A network is linear far outside of what it was trained on: one outlying feature of one row can give a prediction that is off by
    any factor.
    """

    low: Tensor
    high: Tensor

    @staticmethod
    def of_labels(values: Tensor, weight: Tensor | None = None) -> "BoundedScaling":
        """Return the scaling and bounds for labels ``(rows, targets)``; NaN are ignored."""
        scaling = Scaling.of(values, weight)
        low, high = values.nan_to_num(torch.inf).amin(0), values.nan_to_num(-torch.inf).amax(0)
        margin = BOUND_MARGIN * (high - low)
        return BoundedScaling(scaling.center, scaling.scale, low - margin, high + margin)

    def undo(self, values: Tensor) -> Tensor:
        return super().undo(values).clamp(self.low.to(values), self.high.to(values))


BOUND_MARGIN = 0.25
"""The part of the labels' width by which predictions may leave their range."""


def standard(values: Tensor, weight: Tensor | None) -> Scaling:
    """Return the scaling of features by mean and standard deviation."""
    return Scaling.of(values, weight, constant=_CONSTANT_FEATURE_SCALE)


_KNEE, _NO_KNEE = 3.0, 1e30
"""Scaled values are squashed smoothly into (-knee, knee); the second knee is so large that a value stays as it is."""

_FAR = 7.0
"""A column has heavy tails if a value is more than this many standard deviations from the mean, or if the standard deviation is
this many times that of the middle half of the values."""

FARTHEST = 1e6
"""Scaled features are cut off here: no training row is so far out, and larger values could overflow in a network."""


@dataclass(frozen=True)
class RobustScaling(Scaling):
    """A scaling of features for which a few outliers do no harm.

    Most columns are standardised. One with heavy tails is scaled by its median and its middle half, and squashed by
    ``z / sqrt(1 + (z / knee)^2)``, as in RealMLP (Holzmueller et al. 2024): otherwise a single wrong cell would leave no difference
    between all the others.
    """

    knee: Tensor

    @staticmethod
    def of_features(values: Tensor, weight: Tensor | None = None) -> "RobustScaling":
        """Return the scaling for training rows ``(rows, columns)``, which count ``weight (rows,)`` times."""
        plain = standard(values, weight)
        farthest = plain.apply(values).abs().amax(0)
        center, scale, knee = plain.center.clone(), plain.scale.clone(), torch.full_like(plain.scale, _NO_KNEE)
        for index, column in enumerate(values.T):
            if has_two_values(column):
                continue
            low, quarter, middle, three_quarters, high = quantiles(column, weight, (0.01, 0.25, 0.5, 0.75, 0.99))
            half = (three_quarters - quarter) / _QUARTILES
            robust = half if half > 0 else 0.5 * (high - low)
            if robust > 0 and (farthest[index] > _FAR or (half > 0 and scale[index] > _FAR * half)):
                center[index], scale[index], knee[index] = middle, robust, _KNEE
        return RobustScaling(center, scale, knee)

    def apply(self, values: Tensor) -> Tensor:
        scaled = super().apply(values).clamp(-FARTHEST, FARTHEST)
        return scaled / (1.0 + (scaled / self.knee.to(scaled)).square()).sqrt()


_QUARTILES = 1.349
"""The distance of a normal distribution's quartiles, in standard deviations."""


def quantiles(values: Tensor, weight: Tensor | None, shares: Sequence[float]) -> list[float]:
    """Return the smallest values that at least these shares of all values do not exceed."""
    ordered, order = values.sort()
    total = torch.arange(1, len(values) + 1, dtype=torch.float64) if weight is None else weight[order].double().cumsum(0)
    indices = torch.searchsorted(total, torch.tensor(shares, dtype=torch.float64) * total[-1])
    found: list[float] = ordered[indices.clamp(max=len(values) - 1)].tolist()
    return found


def has_two_values(values: Tensor) -> bool:
    """Return True if a column has no more than two different values."""
    low, high = values.min(), values.max()
    return bool(((values == low) | (values == high)).all())


def proper_scale(deviation: Tensor, mean: Tensor, constant: float = 1.0) -> Tensor:
    """Return the divisor of each column: its deviation, or ``constant`` where the column is constant up to rounding.

    The mean of many equal numbers may be a bit off, and then the deviation is not 0 but rounding error; dividing by that would blow
    up the first other value.
    """
    is_constant = deviation <= rounding_noise(mean, torch.finfo(mean.dtype).eps)
    return torch.where(is_constant | deviation.isnan(), constant, deviation)


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the weighted mean of each column, ignoring NaN; NaN where nothing counts."""
    if weight is None:
        return values.nanmean(0)
    counts = weight.to(values).unsqueeze(-1) * ~values.isnan()
    return (counts * values.nan_to_num()).sum(0) / counts.sum(0)
