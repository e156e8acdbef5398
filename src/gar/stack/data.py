"""What a stack is trained on: one table, and for every fold which of its rows train, validate and test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gar.errors import InputError
from gar.functional.formulas import rounding_noise

SPLITS = ("valid", "test")

_TELLS_NOTHING = 1e30
"""The scale of a feature that never varied in training: whatever it becomes later is divided away, for no weight has learned what
to do with it, and in its own units it might be huge. Finite, so that it can be written to any file."""


@dataclass(frozen=True)
class Scaling:
    """``(values - center) / scale``, column by column."""

    center: Tensor
    scale: Tensor

    @staticmethod
    def of(values: Tensor, weight: Tensor | None = None, *, constant: float = 1.0) -> "Scaling":
        """Mean and standard deviation (divided by n) of each column, NaN left out.

        Args:
            values: of the rows that tell.
            weight: how often each of them counts.
            constant: the scale of a column that is constant, or has no values at all.
        """
        center = _mean(values, weight)
        scale = _mean((values - center).square(), weight).sqrt()
        return Scaling(center.nan_to_num(), proper_scale(scale, center, constant))

    def apply(self, values: Tensor) -> Tensor:
        """Of values ``(..., columns)``."""
        return (values - self.center.to(values)) / self.scale.to(values)

    def undo(self, values: Tensor) -> Tensor:
        """Back to the units of the table, ``(..., columns)``."""
        return values * self.scale.to(values) + self.center.to(values)


def proper_scale(deviation: Tensor, mean: Tensor, constant: float = 1.0) -> Tensor:
    """What to divide a column by: its deviation, or ``constant`` if it is a constant one. The mean of many equal numbers may be a
    bit off, and then the deviation is not 0 but rounding error; dividing by that would blow up the first other value."""
    is_constant = deviation <= rounding_noise(mean, torch.finfo(mean.dtype).eps)
    return torch.where(is_constant | deviation.isnan(), constant, deviation)


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Of each column, NaN left out; NaN where nothing counts."""
    if weight is None:
        return values.nanmean(0)
    counts = weight.to(values).unsqueeze(-1) * ~values.isnan()
    return (counts * values.nan_to_num()).sum(0) / counts.sum(0)


@dataclass(frozen=True)
class PeriodicFeatures:
    """Scaled features, and after them cosines of some of them: ``cos(2 pi (frequency z + phase))``.

    A network of numbers alone fits steps and bumps of a single feature only slowly; on waves of several lengths they are easy.

    Args:
        scaling: of all features.
        columns: which features have waves.
        frequencies: ``(columns, waves)``, in periods per standard deviation.
        phases: ``(columns, waves)``, in periods.
    """

    scaling: Scaling
    columns: Tensor
    frequencies: Tensor
    phases: Tensor

    @staticmethod
    def draw(scaling: Scaling, columns: Sequence[int], waves: int, *, seed: Sequence[int]) -> "PeriodicFeatures":
        """Random phases, and frequencies around one half: two of three within a factor of e (log-normal)."""
        generator = np.random.default_rng(seed)
        shape = (len(columns), waves)
        frequencies = 0.5 * np.exp(generator.normal(size=shape))
        phases = generator.uniform(size=shape)
        return PeriodicFeatures(
            scaling, torch.tensor(columns, dtype=torch.int64), torch.from_numpy(frequencies), torch.from_numpy(phases)
        )

    def apply(self, values: Tensor) -> Tensor:
        """Of values ``(rows, columns)``: ``(rows, columns + waves of all)``."""
        scaled = self.scaling.apply(values)
        turns = scaled[:, self.columns].unsqueeze(-1) * self.frequencies.to(scaled) + self.phases.to(scaled)
        return torch.cat([scaled, torch.cos(2.0 * torch.pi * turns).flatten(1)], 1)


@dataclass(frozen=True)
class Fold:
    """Row numbers of one split of the table, and how features and labels are scaled in it (None: not at all).

    With scaled labels, models learn and predict scaled labels; metrics are in the units of the table either way.
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
    """A table of numbers with its folds.

    Args:
        x: features ``(rows, columns)``, finite.
        y: labels ``(rows,)`` or ``(rows, targets)``; NaN where a label is missing.
        folds: for each fold row numbers ``(train, valid, test)``, or a :class:`Fold`. Validation and test may be empty; folds
            may differ in size.
        sample_weight: how often each row counts, in training and in metrics, ``(rows,)``.
        scale_features: standardise features in each fold with statistics of its own training rows.
        scale_labels: the same for labels.

    Tensors stay in the precision they come in; training converts them to its own.

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
        scale_features: bool = False,
        scale_labels: bool = False,
    ) -> None:
        self.x, self.y = _table(x, "x"), _table(y, "y")
        self.sample_weight = None if sample_weight is None else _table(sample_weight, "sample_weight").squeeze(-1)
        self._check_tables()
        if not folds:
            raise InputError("folds is empty; pass at least one (train, valid, test) of row numbers")
        plain = [_as_fold(fold, place, len(self.x)) for place, fold in enumerate(folds)]
        self.folds = tuple(self._scaled(fold, scale_features, scale_labels) for fold in plain)
        if len({_wave_count(fold) for fold in self.folds}) > 1:
            raise InputError("folds differ in their number of waves, and so in what a network sees; give all the same number")

    def __repr__(self) -> str:
        rows, features = self.x.shape
        return f"StackData(rows={rows}, features={features}, targets={self.y.shape[1]}, folds={len(self.folds)})"

    @property
    def inputs(self) -> int:
        """Numbers of a row that a network sees: its features, and their waves."""
        return self.x.shape[1] + _wave_count(self.folds[0])

    @property
    def has_missing_labels(self) -> bool:
        """Whether any training row of any fold lacks a label; then all folds leave out what is missing."""
        return any(bool(self.y[torch.from_numpy(fold.train)].isnan().any()) for fold in self.folds)

    def labelled(self, rows: np.ndarray) -> int:
        """How many of these rows have a label and a weight that is not zero."""
        places = torch.from_numpy(rows)
        known = ~self.y[places].isnan().all(1)
        return int((known if self.sample_weight is None else known & (self.sample_weight[places] > 0)).sum())

    def _scaled(self, fold: Fold, features: bool, labels: bool) -> Fold:
        train = torch.from_numpy(fold.train)
        weight = None if self.sample_weight is None else self.sample_weight[train]
        by_x = Scaling.of(self.x[train], weight, constant=_TELLS_NOTHING) if features and fold.features is None else fold.features
        by_y = Scaling.of(self.y[train], weight) if labels and fold.labels is None else fold.labels
        return Fold(fold.train, fold.valid, fold.test, by_x, by_y)

    def _check_tables(self) -> None:
        rows = len(self.x)
        if len(self.y) != rows:
            raise InputError(f"x has {rows} rows, y has {len(self.y)}; they must have one row per sample")
        bad = int((~self.x.isfinite()).sum())
        if bad:
            raise InputError(f"x has {bad} NaN or infinite values; fill or remove them before training")
        if bool(self.y.isinf().any()):
            raise InputError("y has infinite values; remove these rows, or use NaN for a missing label")
        if self.sample_weight is None:
            return
        if self.sample_weight.shape != (rows,):
            raise InputError(f"sample_weight has shape {tuple(self.sample_weight.shape)}; expected one value per row: ({rows},)")
        if not bool(((self.sample_weight >= 0) & self.sample_weight.isfinite()).all()):
            raise InputError("sample_weight holds negative, infinite or NaN values; expected finite numbers >= 0")


def _wave_count(fold: Fold) -> int:
    return fold.features.frequencies.numel() if isinstance(fold.features, PeriodicFeatures) else 0


def _table(values: ArrayLike | Tensor, name: str) -> Tensor:
    """A floating tensor on the CPU, of two dimensions."""
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


def _as_fold(fold: Fold | Sequence[ArrayLike], place: int, rows: int) -> Fold:
    parts: Sequence[ArrayLike] = (fold.train, fold.valid, fold.test) if isinstance(fold, Fold) else fold
    if len(parts) != 3:
        raise InputError(f"fold {place} has {len(parts)} parts; expected row numbers (train, valid, test)")
    train, valid, test = (
        _row_numbers(part, f"fold {place}, {name}", rows) for part, name in zip(parts, ("train", *SPLITS), strict=True)
    )
    if len(train) == 0:
        raise InputError(f"fold {place} has no training rows; give it at least one")
    scalings = (fold.features, fold.labels) if isinstance(fold, Fold) else (None, None)
    return Fold(train, valid, test, *scalings)


def _row_numbers(values: ArrayLike, name: str, rows: int) -> np.ndarray:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} rows have dtype {array.dtype}; expected row numbers: use np.flatnonzero for a mask")
    if array.ndim != 1 or (array.size and (array.min() < 0 or array.max() >= rows)):
        raise InputError(f"{name} rows must be a flat list of numbers from 0 to {rows - 1}")
    return array.astype(np.int64)
