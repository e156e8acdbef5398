"""Training on tables: recipes and checks that the estimators and a comparison share."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.errors import InputError
from gar.stack import PeriodicFeatures, Scaling, StackData, StackedMLP, TrainSettings
from gar.validation import check_choice

FoldScaling = tuple[Scaling | PeriodicFeatures | None, Scaling | None]
"""How a fold sees features, and labels."""

MOST_INPUTS = 600
"""PeriodicFeatures of all features together: more features have fewer each."""


class Size(NamedTuple):
    """How large a network a table deserves: the width of its layers, and waves of a feature."""

    width: int
    waves: int


SMALL, LARGE, LARGE_ROWS = Size(64, 16), Size(128, 24), 2000
"""A table of so many training rows has the larger network. Measured: ``benchmarks/defaults.py``."""

DEFAULT: Mapping[str, Any] = {
    "learning_rates": (2e-2, 1e-2, 5e-3),
    "weight_decays": (1e-1, 1e-2),
    "batch_sizes": (32,),
    "hidden_sizes": "auto",
    "activation": "silu",
    "encoding": "auto",
    "epochs": 60,
    "optimizer": "adamw",
    "schedule": "cosine",
}
"""What works on small and middling tables; labels are standardised. How it was chosen: ``benchmarks/defaults.py``."""

PAPER: Mapping[str, Any] = {
    "learning_rates": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
    "weight_decays": (1e-3, 1e-4, 1e-5),
    "batch_sizes": (256,),
    "hidden_sizes": "paper",
    "activation": "elu",
    "encoding": None,
    "epochs": 100,
    "optimizer": "sgd",
    "schedule": "multistep",
}
"""The paper's recipe for tables. Its labels are not standardised."""


def train_settings(
    *,
    hidden_sizes: Any,
    features: int,
    rows: int = 0,
    activation: Any = "elu",
    encoding: str | None = None,
    epochs: int,
    batch_size: int,
    optimizer: Any,
    schedule: Any,
    loss: str,
    loss_options: Mapping[str, Any] | None = None,
    drop_last: bool = False,
    **more: Any,
) -> TrainSettings:
    """Settings of a stack from those of a recipe."""
    return TrainSettings(
        hidden_sizes=widths(hidden_sizes, features=features, rows=rows),
        activation=activation,
        feature_gates=encoding == "periodic",
        epochs=epochs,
        batch_size=batch_size,
        drop_last=drop_last,
        even_batches=not drop_last,
        optimizer=optimizer,
        schedule=schedule,
        milestones=(epochs // 2, 3 * epochs // 4),
        loss=loss,
        loss_options=dict(loss_options or {}),
        **more,
    )


def encoded(data: StackData, encoding: str | None, *, seed: int) -> StackData:
    """The same table with features as the networks are to see them: ``"periodic"``, or None for standardised numbers alone.

    Features of two values have no waves: a network reads them as they are. Every fold draws its own, so that the networks of a mean
    differ in more than their rows.
    """
    if encoding is not None:
        check_choice(encoding, ("periodic",), "encoding")
    columns = [place for place, column in enumerate(data.x.T) if len(column.unique()) > 2]
    if encoding is None or not columns:
        return data
    waves = max(1, min(_size(train_rows(data)).waves, MOST_INPUTS // len(columns)))
    nothing = Scaling(torch.zeros(data.x.shape[1]), torch.ones(data.x.shape[1]))
    folds = []
    for place, fold in enumerate(data.folds):
        scaling = fold.features if isinstance(fold.features, Scaling) else nothing
        folds.append(replace(fold, features=PeriodicFeatures.draw(scaling, columns, waves, seed=(seed, place))))
    return StackData(data.x, data.y, folds, sample_weight=data.sample_weight)


def train_rows(data: StackData) -> int:
    """Of the smallest fold."""
    return min(len(fold.train) for fold in data.folds)


def _size(rows: int) -> Size:
    return LARGE if rows >= LARGE_ROWS else SMALL


_BLOCK = 4096


def fold_predictions(networks: StackedMLP, place: int, fold: FoldScaling, x: Tensor) -> Tensor:
    """Predictions ``(rows, targets)`` of one network in the units of the labels, for features ``x`` as they stand in the table.

    In double precision a row's prediction does not depend on how many rows are predicted with it; block by block, waves of many
    rows do not fill the memory.
    """
    network = StackedMLP(networks.layout, networks.weights[place : place + 1].double())
    features, labels = fold
    blocks = [
        network(rows if features is None else features.apply(rows)).predictions[0] for rows in torch.split(x.double(), _BLOCK)
    ]
    predictions = torch.cat(blocks)
    return predictions if labels is None else labels.undo(predictions)


def widths(hidden_sizes: Any, *, features: int, rows: int) -> tuple[int, ...]:
    """``"auto"`` (by the number of training rows), ``"paper"`` (by the number of features), or widths as they are given.

    Example:
        >>> widths("paper", features=8, rows=500), widths("auto", features=8, rows=500), widths((16, 8), features=8, rows=500)
        ((16, 32, 16, 8), (64, 64, 64), (16, 8))
    """
    if not isinstance(hidden_sizes, str):
        return tuple(np.atleast_1d(hidden_sizes).tolist())
    check_choice(hidden_sizes, ("auto", "paper"), "hidden_sizes")
    if hidden_sizes == "auto":
        return (_size(rows).width,) * 3
    return (16, 32, 16, 8) if features <= 16 else (128, 256, 128, 64)


def check_labels(labels: np.ndarray, names: Sequence[object]) -> None:
    """Every column of labels ``(rows, targets)`` has something to learn from."""
    for name, column in zip(names, labels.T, strict=True):
        known = column[~np.isnan(column)]
        if len(known) == 0:
            raise InputError(f"target {name} has no label at all; leave it out")
        if np.all(known == known[0]):
            raise InputError(f"target {name} is {known[0]:g} in all rows: there is nothing to learn; leave it out")
