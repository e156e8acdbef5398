"""The data of a stack: features, labels, and for every fold its training, validation and test rows."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from gar.errors import InputError
from gar.stack.expansion import ExpandedFeatures
from gar.stack.scaling import LARGEST, BoundedScaling, RobustScaling, Scaling, standard

SPLITS = ("valid", "test")


@dataclass(frozen=True)
class Fold:
    """Row indices of one split of the table, and the scaling of its features and labels (None: unscaled).

    With scaled labels, models predict scaled labels; metrics are in the units of the table either way.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    features: Scaling | ExpandedFeatures | None = None
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
        self._set_folds([self._scaled(fold, scale_features, of_labels) for fold in plain])

    def _set_folds(self, folds: Sequence[Fold]) -> None:
        self.folds = tuple(folds)
        if len({_expanded_count(fold) for fold in self.folds}) > 1:
            raise InputError(
                "folds differ in their number of expanded features, and so in network inputs; give all the same number"
            )

    def __repr__(self) -> str:
        rows, features = self.x.shape
        return f"StackData(rows={rows}, features={features}, targets={self.y.shape[1]}, folds={len(self.folds)})"

    def with_folds(self, folds: Sequence[Fold]) -> "StackData":
        """Return the same rows with other folds, whose scalings are known."""
        data = copy(self)  # their values are checked
        data._set_folds([_as_fold(fold, index, len(self.x)) for index, fold in enumerate(folds)])
        return data

    @property
    def inputs(self) -> int:
        """Return the number of network inputs: features, and those that expand them."""
        return self.x.shape[1] + _expanded_count(self.folds[0])

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
        differs: np.ndarray = np.any(low < high, axis=1)
        found: np.ndarray = rows[differs[group]]
        return found

    def has_different_labels(self, rows: np.ndarray) -> bool:
        """Return True if any target has two different labels among these rows."""
        labels = self.y[torch.from_numpy(rows)]
        return bool((labels.nan_to_num(-torch.inf).amax(0) > labels.nan_to_num(torch.inf).amin(0)).any())

    def scaled_rows(self, fold: Fold, rows: np.ndarray, like: Tensor, *, expanded: bool = True) -> tuple[Tensor, Tensor]:
        """Return features and labels of some rows as a fold scales them, in dtype and device of ``like``.

        They are scaled before they are rounded to the dtype of training. ``expanded=False`` leaves further features of them out.
        """
        features = fold.features
        if isinstance(features, ExpandedFeatures) and not expanded:
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
            of_features = RobustScaling.of_features if features == "robust" else standard
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


def _expanded_count(fold: Fold) -> int:
    return fold.features.count if isinstance(fold.features, ExpandedFeatures) else 0


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
