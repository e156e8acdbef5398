"""The data of a stack: features, labels, and for every fold its training, validation and test rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gar.errors import InputError
from gar.functional.formulas import rounding_noise

SPLITS = ("valid", "test")

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


def _standard(values: Tensor, weight: Tensor | None) -> Scaling:
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
        plain = _standard(values, weight)
        farthest = plain.apply(values).abs().amax(0)
        center, scale, knee = plain.center.clone(), plain.scale.clone(), torch.full_like(plain.scale, _NO_KNEE)
        for index, column in enumerate(values.T):
            if has_two_values(column):
                continue
            low, quarter, middle, three_quarters, high = _quantiles(column, weight, (0.01, 0.25, 0.5, 0.75, 0.99))
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


def _quantiles(values: Tensor, weight: Tensor | None, shares: Sequence[float]) -> list[float]:
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


@dataclass(frozen=True)
class PeriodicFeatures:
    """Scaled features, followed by random Fourier features of some of them: ``cos(2 pi (frequency z + phase))``.

    A network on scaled features alone is slow to fit steps and bumps of a single feature; periodic features make them easy.

    Args:
        scaling: scaling of all features.
        columns: indices of the features that get periodic features.
        frequencies: ``(columns, count)``, in periods per standard deviation.
        phases: ``(columns, count)``, in periods.
    """

    scaling: Scaling
    columns: Tensor
    frequencies: Tensor
    phases: Tensor

    @staticmethod
    def draw(scaling: Scaling, columns: Sequence[int], count: int, *, seed: Sequence[int]) -> "PeriodicFeatures":
        """Draw ``count`` periodic features per column: uniform phases, log-normal frequencies (median 0.5, sigma 1)."""
        generator = np.random.default_rng(seed)
        shape = (len(columns), count)
        frequencies = 0.5 * np.exp(generator.normal(size=shape))
        phases = generator.uniform(size=shape)
        return PeriodicFeatures(
            scaling, torch.tensor(columns, dtype=torch.int64), torch.from_numpy(frequencies), torch.from_numpy(phases)
        )

    def apply(self, values: Tensor) -> Tensor:
        """Return scaled and periodic features of values ``(rows, columns)``: ``(rows, columns + periodic features)``."""
        scaled = self.scaling.apply(values)
        turns = scaled[:, self.columns].unsqueeze(-1) * self.frequencies.to(scaled) + self.phases.to(scaled)
        return torch.cat([scaled, torch.cos(2.0 * torch.pi * turns).flatten(1)], 1)

    def to(self, like: Tensor) -> "PeriodicFeatures":
        """Return the same features with numbers in dtype and on the device of ``like``, for :meth:`expand`."""
        frequencies, phases = self.frequencies.to(like), self.phases.to(like)
        return PeriodicFeatures(self.scaling, self.columns.to(like.device), frequencies, phases)

    def expand(self, scaled: Tensor, out: Tensor) -> None:
        """Write features ``(columns, rows)`` that are scaled already, and their periodic features, to ``out (inputs, rows)``."""
        count = len(scaled)
        out[:count] = scaled
        turns = out[count:].view(*self.frequencies.shape, -1)
        torch.addcmul(self.phases[..., None], scaled[self.columns].unsqueeze(1), self.frequencies[..., None], out=turns)
        turns.mul_(2.0 * torch.pi).cos_()


@dataclass(frozen=True)
class Fold:
    """Row indices of one split of the table, and the scaling of its features and labels (None: unscaled).

    With scaled labels, models predict scaled labels; metrics are in the units of the table either way.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    features: Scaling | PeriodicFeatures | None = None
    labels: Scaling | None = None

    def of_split(self, name: str) -> np.ndarray:
        rows: np.ndarray = getattr(self, name)
        return rows


class StackData:
    """Features, labels and folds.

    Args:
        x: features ``(rows, columns)``, finite.
        y: labels ``(rows,)`` or ``(rows, targets)``; NaN where a label is missing.
        folds: row indices ``(train, valid, test)`` of each fold, or a :class:`Fold`. Validation and test may be empty; folds
            may differ in size.
        sample_weight: how often each row counts, in training and in metrics, ``(rows,)``.
        pair_groups: a whole number from 0 for each row, ``(rows,)``: the loss compares rows of the same group only, a batch has
            several rows of a group, and correlations are means over groups.
        scale_features: standardise features in each fold with statistics of its own training rows; ``"robust"`` also squashes heavy
            tails (:class:`RobustScaling`).
        scale_labels: standardise labels in the same way.
        bound_predictions: with scaled labels, keep predictions near their range (:class:`BoundedScaling`).

    Tensors keep their precision; training converts them to its own.

    Example:
        >>> data = StackData(np.zeros((6, 2)), np.arange(6.0), [([0, 1, 2, 3], [4], [5])])
        >>> data
        StackData(rows=6, features=2, targets=1, folds=1)
    """

    def __init__(
        self,
        x: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        folds: Sequence[Fold | Sequence[ArrayLike]],
        *,
        sample_weight: ArrayLike | Tensor | None = None,
        pair_groups: np.ndarray | Tensor | None = None,
        scale_features: bool | Literal["robust"] = False,
        scale_labels: bool = False,
        bound_predictions: bool = False,
    ) -> None:
        self.x, self.y = _matrix(x, "x"), _matrix(y, "y")
        self.sample_weight = None if sample_weight is None else _matrix(sample_weight, "sample_weight").squeeze(-1)
        self.pair_groups = None if pair_groups is None else torch.as_tensor(pair_groups)
        self._check_values()
        if not folds:
            raise InputError("folds is empty; pass at least one (train, valid, test) of row indices")
        plain = [_as_fold(fold, index, len(self.x)) for index, fold in enumerate(folds)]
        of_labels = (BoundedScaling.of_labels if bound_predictions else Scaling.of) if scale_labels else None
        self.folds = tuple(self._scaled(fold, scale_features, of_labels) for fold in plain)
        if len({_periodic_count(fold) for fold in self.folds}) > 1:
            raise InputError(
                "folds differ in their number of periodic features, and so in network inputs; give all the same number"
            )

    def __repr__(self) -> str:
        rows, features = self.x.shape
        return f"StackData(rows={rows}, features={features}, targets={self.y.shape[1]}, folds={len(self.folds)})"

    def with_folds(self, folds: Sequence[Fold]) -> "StackData":
        """Return the same rows with other folds, whose scalings are known."""
        return StackData(self.x, self.y, folds, sample_weight=self.sample_weight, pair_groups=self.pair_groups)

    @property
    def inputs(self) -> int:
        """Return the number of network inputs: features and periodic features."""
        return self.x.shape[1] + _periodic_count(self.folds[0])

    @property
    def has_missing_labels(self) -> bool:
        """Return True if any training row of any fold lacks a label; losses then ignore missing labels in all folds."""
        return any(bool(self.y[torch.from_numpy(fold.train)].isnan().any()) for fold in self.folds)

    def count_labelled(self, rows: np.ndarray) -> int:
        """Return the number of these rows that have a label and a nonzero weight."""
        indices = torch.from_numpy(rows)
        known = ~self.y[indices].isnan().all(1)
        return int((known if self.sample_weight is None else known & (self.sample_weight[indices] > 0)).sum())

    def groups_of(self, rows: np.ndarray) -> Tensor | None:
        """Return the groups that these rows are compared in, None without groups."""
        return None if self.pair_groups is None else self.pair_groups[torch.from_numpy(rows)]

    def with_partner(self, rows: np.ndarray) -> np.ndarray:
        """Return those of these rows that can be compared: all, or with groups those whose group has different labels."""
        if self.pair_groups is None:
            return rows
        names, group = np.unique(self.pair_groups.numpy()[rows], return_inverse=True)
        low, high = np.full((2, len(names), self.y.shape[1]), np.nan)
        labels = self.y[torch.from_numpy(rows)].double().numpy()
        np.fmin.at(low, group, labels)
        np.fmax.at(high, group, labels)
        return rows[(low < high).any(1)[group]]

    def has_different_labels(self, rows: np.ndarray) -> bool:
        """Return True if any target has two different labels among these rows."""
        labels = self.y[torch.from_numpy(rows)]
        return bool((labels.nan_to_num(-torch.inf).amax(0) > labels.nan_to_num(torch.inf).amin(0)).any())

    def scaled_rows(self, fold: Fold, rows: np.ndarray, like: Tensor, *, periodic: bool = True) -> tuple[Tensor, Tensor]:
        """Return features and labels of some rows as a fold scales them, in dtype and device of ``like``.

        They are scaled before they are rounded to the dtype of training. ``periodic=False`` leaves periodic features out.
        """
        features = fold.features
        if isinstance(features, PeriodicFeatures) and not periodic:
            features = features.scaling
        indices = torch.from_numpy(rows)
        x, y = self.x[indices], self.y[indices]
        x = x if features is None else features.apply(x)
        y = y if fold.labels is None else fold.labels.apply(y)
        return x.to(like), y.to(like)

    def _scaled(
        self, fold: Fold, features: bool | Literal["robust"], of_labels: Callable[[Tensor, Tensor | None], Scaling] | None
    ) -> Fold:
        train = torch.from_numpy(fold.train)
        weight = None if self.sample_weight is None else self.sample_weight[train]
        by_x, by_y = fold.features, fold.labels
        if features and by_x is None:
            of_features = RobustScaling.of_features if features == "robust" else _standard
            by_x = of_features(self.x[train], weight)
        if of_labels is not None and by_y is None:
            by_y = of_labels(self.y[train], weight)
        return Fold(fold.train, fold.valid, fold.test, by_x, by_y)

    def _check_values(self) -> None:
        rows = len(self.x)
        if len(self.y) != rows:
            raise InputError(f"x has {rows} rows, y has {len(self.y)}; they must have one row per sample")
        bad = int((~self.x.isfinite()).sum())
        if bad:
            raise InputError(f"x has {bad} NaN or infinite values; fill or remove them before training")
        if self.x.numel() and (largest := float(self.x.abs().max())) > LARGEST:
            raise InputError(
                f"x has a value of magnitude {largest:g}, and features beyond {LARGEST:g} have no variance in double precision; "
                "divide the column by a power of ten"
            )
        if bool(self.y.isinf().any()):
            raise InputError("y has infinite values; remove these rows, or use NaN for a missing label")
        if self.pair_groups is not None and (self.pair_groups.shape != (rows,) or self.pair_groups.is_floating_point()):
            found = f"shape {tuple(self.pair_groups.shape)} and dtype {self.pair_groups.dtype}"
            raise InputError(f"pair_groups has {found}; expected a whole number per row: ({rows},)")
        if self.sample_weight is None:
            return
        if self.sample_weight.shape != (rows,):
            raise InputError(f"sample_weight has shape {tuple(self.sample_weight.shape)}; expected one value per row: ({rows},)")
        if not bool(((self.sample_weight >= 0) & self.sample_weight.isfinite()).all()):
            raise InputError("sample_weight holds negative, infinite or NaN values; expected finite numbers >= 0")


def _periodic_count(fold: Fold) -> int:
    return fold.features.frequencies.numel() if isinstance(fold.features, PeriodicFeatures) else 0


def _matrix(values: ArrayLike | Tensor, name: str) -> Tensor:
    """Return values as a floating tensor ``(rows, columns)`` on the CPU."""
    tensor = values.detach().cpu() if isinstance(values, Tensor) else torch.from_numpy(_numbers(values, name))
    tensor = tensor.unsqueeze(-1) if tensor.ndim == 1 else tensor
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; expected (rows,) or (rows, columns) with at least one column")
    return tensor if tensor.is_floating_point() else tensor.double()


def _numbers(values: ArrayLike, name: str) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} has dtype {array.dtype}; expected numbers: encode text and categories first")
    return np.array(array, dtype=array.dtype if array.dtype in (np.float32, np.float64) else np.float64)


def _as_fold(fold: Fold | Sequence[ArrayLike], index: int, rows: int) -> Fold:
    parts: Sequence[ArrayLike] = (fold.train, fold.valid, fold.test) if isinstance(fold, Fold) else fold
    if len(parts) != 3:
        raise InputError(f"fold {index} has {len(parts)} parts; expected row indices (train, valid, test)")
    train, valid, test = (
        _row_indices(part, f"fold {index}, {name}", rows) for part, name in zip(parts, ("train", *SPLITS), strict=True)
    )
    if len(train) == 0:
        raise InputError(f"fold {index} has no training rows; give it at least one")
    scalings = (fold.features, fold.labels) if isinstance(fold, Fold) else (None, None)
    return Fold(train, valid, test, *scalings)


def _row_indices(values: ArrayLike, name: str, rows: int) -> np.ndarray:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} rows have dtype {array.dtype}; expected row indices: use np.flatnonzero for a mask")
    if array.ndim != 1 or (array.size and (array.min() < 0 or array.max() >= rows)):
        raise InputError(f"{name} rows must be a flat list of indices from 0 to {rows - 1}")
    return array.astype(np.int64)
