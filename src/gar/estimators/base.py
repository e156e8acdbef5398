"""What both estimators share: checked rows, encoded and standardised folds, and predictions in the units of the labels."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from gar.encoding import Encoder, encode_folds
from gar.encoding.cells import checked_table
from gar.encoding.encoder import inferred_codes, sorted_distinct
from gar.errors import InputError
from gar.groups import group_codes
from gar.pickles import VersionedPickle
from gar.registry import LOSSES
from gar.stack import ExpandedFeatures, Scaling, StackData, StackedMLP
from gar.stack.scaling import LARGEST
from gar.validation import check_choice

Split = tuple[np.ndarray, np.ndarray]
"""Row numbers of the training rows and of the validation rows."""

BLOCK_ROWS = 4096
"""Rows that are predicted at a time, so that expanded features of many rows do not fill the memory."""


class WeightedRows(NamedTuple):
    """Rows of a table: codes ``(rows, columns)`` of an encoder, labels ``(rows, targets)``, sample weights ``(rows,)``, and groups
    within which rows are compared ``(rows,)``, all 0 without groups."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    pair_groups: np.ndarray

    def take(self, indices: np.ndarray) -> "WeightedRows":
        return WeightedRows(*(column[indices] for column in self))

    def merged(self) -> "WeightedRows":
        """Return each distinct row of positive weight once in its group, with the sum of its weights, in sorted order.

        So a row that occurs twice equals a row of weight two, and the order of rows does not matter, both to the last bit.
        """
        return self._merged(np.zeros(len(self.weight)))[0]

    def merged_folds(self, splits: Sequence[Split]) -> tuple["WeightedRows", list[Split]]:
        """Return merged rows, which all folds share, and the row numbers of the folds among them.

        Rows are merged that are in the same part of every fold. If a part has a row twice, every part has rows of its own.
        """
        every = np.arange(len(self.weight))
        parts = [[every[part] for part in split] for split in splits]  # masks and negative numbers become row numbers
        if any(np.bincount(np.concatenate(split), minlength=1).max() > 1 for split in parts):
            return _concatenated([self.take(part).merged() for split in parts for part in split])
        part_of = np.zeros((len(parts), len(self.weight)), dtype=np.int8)  # 1 is training, 2 validation
        pattern = np.zeros(len(self.weight), dtype=np.int64)
        for of_fold, split in zip(part_of, parts, strict=True):
            for number, part in enumerate(split, start=1):
                of_fold[part] = number
            pattern = np.unique(3 * pattern + of_fold, return_inverse=True)[1].reshape(-1)
        rows, first = self._replace(weight=np.where(part_of.any(0), self.weight, 0.0))._merged(pattern)
        return rows, [(np.flatnonzero(of_fold[first] == 1), np.flatnonzero(of_fold[first] == 2)) for of_fold in part_of]

    def _merged(self, pattern: np.ndarray) -> tuple["WeightedRows", np.ndarray]:
        """Return merged rows, and the first row that each was; rows of different patterns are not merged."""
        counted = np.flatnonzero(self.weight > 0)
        order, is_new = sorted_distinct([column[counted] for column in (*self.x.T, *self.y.T, pattern, self.pair_groups)])
        order = counted[order]
        weight = np.bincount(np.cumsum(is_new) - 1, self.weight[order])
        first = order[is_new]
        return self.take(first)._replace(weight=weight), first


def _concatenated(blocks: Sequence[WeightedRows]) -> tuple[WeightedRows, list[Split]]:
    """Return the rows of all blocks, and folds, each of which has two blocks."""
    parts = np.split(np.arange(sum(len(block.weight) for block in blocks)), np.cumsum([len(block.weight) for block in blocks])[:-1])
    rows = WeightedRows(*(np.concatenate(column) for column in zip(*blocks, strict=True)))
    return rows, list(zip(parts[::2], parts[1::2], strict=True))


class Member(NamedTuple):
    """Networks of an ensemble that read the same features: how a fold encodes and scales them, and how it scales labels."""

    networks: StackedMLP
    encoder: Encoder
    features: Scaling | ExpandedFeatures | None
    labels: Scaling | None

    def predict(self, x: Tensor) -> Tensor:
        """Return predictions ``(networks, rows, targets)`` in the units of the labels, for encoded rows ``(rows, features)``."""
        return predictions(self.networks, self.features, self.labels, x)


def predictions(networks: StackedMLP, features: Scaling | ExpandedFeatures | None, labels: Scaling | None, x: Tensor) -> Tensor:
    """Return predictions ``(networks, rows, targets)`` in the units of the labels, for rows ``x (rows, features)`` of a table.

    They are computed in double precision, in which a row's prediction does not depend on the rows beside it.
    """
    exact = StackedMLP(networks.layout, networks.weights.double())
    blocks = torch.split(x.double(), BLOCK_ROWS)
    scaled = torch.cat([exact(rows if features is None else features.apply(rows)).predictions for rows in blocks], 1)
    return scaled if labels is None else labels.undo(scaled)


def mean_prediction(members: Sequence[Member], codes: np.ndarray) -> np.ndarray:
    """Return the mean prediction ``(rows, targets)`` of all networks, for codes of a table, from :meth:`Encoder.codes`."""
    total = torch.zeros(len(codes), members[0].networks.layout.sizes[-1], dtype=torch.float64)
    for encoder, own in groupby(members, key=lambda member: member.encoder):  # folds may share an encoder
        x = torch.tensor(encoder.encode(codes))
        for member in own:
            total += member.predict(x).sum(0)
    return (total / sum(len(member.networks) for member in members)).numpy()


class NetworkRegressor(VersionedPickle, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts with the mean of one network or several, which may differ in architecture and in their scaling of the table."""

    members_: list[Member]
    encoder_: Encoder
    n_outputs_: int

    def _validated(self, x: Any, y: Any, sample_weight: Any, pair_groups: Any) -> tuple[WeightedRows, int, torch.device]:
        """Return rows, seed and device, or raise an error that says what is wrong with them, before anything is trained.

        The features of the rows are codes of ``encoder_``, which is inferred here; folds fit it to their training rows.
        """
        check_choice(self.loss, tuple(LOSSES), "loss")
        try:
            device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device)
        except RuntimeError as error:
            raise InputError(f"device={self.device!r} is not known to torch; use 'auto', 'cpu' or 'cuda'") from error
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        columns = checked_table(self, x, reset=True)
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan", input_name="y", estimator=self)
        check_consistent_length(x, y)
        weight = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        labels = y.reshape(len(y), -1)
        self._is_flat, self.n_outputs_ = y.ndim == 1, labels.shape[1]
        check_labels(labels, range(self.n_outputs_))
        self.encoder_, codes = inferred_codes(self, columns, weight)
        pairs = group_codes(pair_groups, name="pair_groups")
        pairs = np.zeros(len(y), dtype=np.int64) if pairs is None else pairs
        if len(pairs) != len(y):
            raise InputError(f"pair_groups has {len(pairs)} values, X has {len(y)} rows; pass one group for each row")
        rows = WeightedRows(codes, labels, weight, pairs)
        return rows, int(check_random_state(self.random_state).randint(2**31 - 1)), device

    def _set_members(self, members: list[Member]) -> None:
        """Predict with the mean of these networks from now on."""
        if not all(bool(member.networks.weights.isfinite().all()) for member in members):
            raise InputError("training diverged: the weights are no longer finite; use a smaller learning rate")
        self.members_ = members

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return predictions in the units of the labels, ``(rows,)`` or ``(rows, targets)`` as in ``fit``."""
        check_is_fitted(self, "members_")
        mean = mean_prediction(self.members_, self.encoder_.codes(checked_table(self, X, reset=False)))
        return mean[:, 0] if self._is_flat else mean

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = True
        return tags


def check_labels(labels: np.ndarray, names: Sequence[object]) -> None:
    """Raise an error if a column of labels ``(rows, targets)`` is empty or constant, or holds a label that is too large."""
    for name, column in zip(names, labels.T, strict=True):
        known = column[~np.isnan(column)]
        if len(known) == 0:
            raise InputError(f"target {name} has no label at all; leave it out")
        if np.all(known == known[0]):
            raise InputError(f"target {name} is {known[0]:g} in all rows: there is nothing to learn; leave it out")
        if not np.abs(known).max() <= LARGEST:
            value = known[np.abs(known).argmax()]
            raise InputError(
                f"target {name} has the label {value:g}, and labels beyond {LARGEST:g} have no variance in double precision; "
                "divide the target by a power of ten"
            )


def stack_data(
    encoder: Encoder,
    rows: WeightedRows,
    splits: Sequence[Split] = (),
    *,
    scale_labels: bool = True,
    bound_predictions: bool = True,
) -> tuple[StackData, list[Encoder]]:
    """Return a table whose folds are encoded and standardised with statistics of their training rows, and the fitted encoders.

    Without splits there is one fold, which trains on all rows.
    """
    everything = (np.arange(len(rows.weight)), np.arange(0))
    rows, folds = rows.merged_folds(splits or [everything])
    for number, (train, _) in enumerate(folds):
        if len(train) == 0:
            raise InputError(f"no row of fold {number} counts in training: all its sample_weight are zero")
    x, indices, parts, encoders = encode_folds(encoder, rows.x, rows.y, folds, rows.weight)
    y, weight = rows.y[indices], rows.weight[indices]
    sample_weight = None if np.all(weight == 1) else weight
    data = StackData(
        x,
        y,
        [(*fold, np.arange(0)) for fold in parts],
        sample_weight=sample_weight,
        pair_groups=rows.pair_groups[indices] if rows.pair_groups.any() else None,
        scale_features="robust" if scale_labels else True,
        scale_labels=scale_labels,
        bound_predictions=bound_predictions,
    )
    for number, fold in enumerate(data.folds if splits else ()):
        if data.count_labelled(fold.valid) == 0:
            raise InputError(f"fold {number} has no validation row with a label and a weight; use fewer folds, or other splits")
    return data, encoders
