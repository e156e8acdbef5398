"""Presets for training on tables, and the settings they stand for, some by rows; shared by the estimators and ``gar compare``."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from gar.registry import LOSSES
from gar.stack import ExpandedFeatures, Fold, PeriodicFeatures, PiecewiseFeatures, Scaling, StackData, TrainSettings
from gar.stack.scaling import has_two_values
from gar.validation import check_choice

ESTIMATOR_PRESET: Mapping[str, Any] = {
    "learning_rates": (2e-2, 1e-2, 5e-3),
    "weight_decays": (1e-1, 1e-2),
    "batch_sizes": "auto",
    "hidden_sizes": "auto",
    "activation": "silu",
    "encoding": "auto",
    "epochs": "auto",
    "optimizer": "adamw",
    "schedule": "cosine",
}
"""Defaults of the estimators, for small and medium tables with standardised labels. Chosen by ``benchmarks/defaults.py``."""

DEFAULT_ALPHA = 10.0
"""GAR's alpha in the estimators, which standardise labels: a grid of three is not better (``benchmarks/against/alphas.py``)."""

PAPER_PRESET: Mapping[str, Any] = {
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
"""The paper's hyperparameters for tables. Its labels are not standardised."""


class NetworkSize(NamedTuple):
    """Width of the hidden layers, and number of further features of each feature that an encoding expands."""

    width: int
    expansion: int


SMALL_NETWORK, LARGE_NETWORK, LARGE_NETWORK_ROWS = NetworkSize(64, 16), NetworkSize(128, 24), 2000
"""Tables with at least ``LARGE_NETWORK_ROWS`` training rows get the larger network. Measured by ``benchmarks/defaults.py``."""

SMALL_ROWS = 4000
"""Up to this many training rows a table gets all epochs, in the smallest batches. More rows need fewer passes over them."""

EPOCHS, BATCH_SIZE = 60, 32
"""Epochs and rows of a batch of a small table."""

LEAST_EPOCHS, _LARGEST_BATCH = 5, 512
"""Fewest epochs and most rows of a batch, whatever the size of a table."""

MAX_EXPANDED_FEATURES = 600
"""Most features that an encoding adds to a table: with many input features, each has fewer of them."""

ENCODINGS = ("periodic", "piecewise", None)
"""How networks may read features: with cosines of each, with ramps of each, or standardised alone."""

LARGE_ENCODINGS = ("periodic", None)
"""Encodings that are tried on large tables, whose networks take longer."""


def encode_features(data: StackData, encoding: str | None, *, seed: int) -> StackData:
    """Return a table of standardised features with another encoding, one of :data:`ENCODINGS`.

    Features of two values are not expanded: a network reads them as they are. Every fold has its own expansion, so that the
    networks of an ensemble differ in more than their rows.
    """
    check_choice(encoding, ENCODINGS, "encoding")
    columns = [index for index, column in enumerate(data.x.T) if not has_two_values(column)]
    if encoding is None or not columns:
        return data
    count = max(1, min(network_size(train_rows(data)).expansion, MAX_EXPANDED_FEATURES // len(columns)))

    def expanded(index: int, fold: Fold) -> ExpandedFeatures:
        assert isinstance(fold.features, Scaling)
        if encoding == "periodic":
            return PeriodicFeatures.draw(fold.features, columns, count, seed=(seed, index))
        train = torch.from_numpy(fold.train)
        weight = None if data.sample_weight is None else data.sample_weight[train]
        return PiecewiseFeatures.of(fold.features, columns, count, data.x[train], weight)

    folds = [replace(fold, features=expanded(index, fold)) for index, fold in enumerate(data.folds)]
    return data.with_folds(folds)


def train_rows(data: StackData) -> int:
    """Return the number of training rows of the smallest fold."""
    return min(len(fold.train) for fold in data.folds)


def network_size(rows: int) -> NetworkSize:
    """Return the size of network for a table of this many training rows."""
    return LARGE_NETWORK if rows >= LARGE_NETWORK_ROWS else SMALL_NETWORK


def epochs_for(rows: int) -> int:
    """Return the number of epochs for this many training rows: it falls with their third root.

    Example:
        >>> [epochs_for(rows) for rows in (500, 16_000, 400_000)]
        [60, 38, 13]
    """
    return int(max(LEAST_EPOCHS, round(EPOCHS * min(1.0, SMALL_ROWS / rows) ** (1 / 3))))


def batch_size_for(rows: int) -> int:
    """Return the size of a batch for this many training rows: it grows with their square root, in powers of two.

    Example:
        >>> [batch_size_for(rows) for rows in (500, 16_000, 400_000)]
        [32, 64, 256]
    """
    doublings = round(0.5 * np.log2(max(1.0, rows / SMALL_ROWS)))
    return int(min(_LARGEST_BATCH, BATCH_SIZE * 2**doublings))


def encodings_for(rows: int) -> tuple[str | None, ...]:
    """Return the encodings to try for this many training rows: one for each of the finalists."""
    return ENCODINGS if rows <= 2 * SMALL_ROWS else LARGE_ENCODINGS


def finalists_for(rows: int) -> int:
    """Return the number of candidates that are trained for all epochs, for this many training rows."""
    return len(encodings_for(rows))


def train_settings(
    *,
    hidden_sizes: Any,
    features: int,
    rows: int = 0,
    encoding: str | None = None,
    epochs: int,
    loss: str,
    loss_options: Mapping[str, Any] | None = None,
    drop_last: bool = False,
    **more: Any,
) -> TrainSettings:
    """Return the settings of a stack from those of a preset; ``more`` are settings that a stack takes as they are.

    The loss has the options that it is registered with, unless ``loss_options`` has others.

    Expanded features get learned feature gates, which switch off uninformative inputs. The multistep schedule has its milestones
    after a half and three quarters of the epochs. Batches are of nearly equal size, unless ``drop_last`` drops an incomplete one.
    """
    return TrainSettings(
        hidden_sizes=widths(hidden_sizes, features=features, rows=rows),
        feature_gates=encoding is not None,
        epochs=epochs,
        drop_last=drop_last,
        even_batches=not drop_last,
        milestones=(epochs // 2, 3 * epochs // 4),
        loss=loss,
        loss_options={**LOSSES[loss].training_options, **(loss_options or {})},
        **more,
    )


def widths(hidden_sizes: Any, *, features: int, rows: int) -> tuple[int, ...]:
    """Return the widths of the hidden layers: ``"auto"`` chooses by training rows, ``"paper"`` by features; others are kept.

    Example:
        >>> widths("paper", features=8, rows=500), widths("auto", features=8, rows=500), widths((16, 8), features=8, rows=500)
        ((16, 32, 16, 8), (64, 64, 64), (16, 8))
    """
    if not isinstance(hidden_sizes, str):
        return tuple(np.atleast_1d(hidden_sizes).tolist())
    check_choice(hidden_sizes, ("auto", "paper"), "hidden_sizes")
    if hidden_sizes == "auto":
        return (network_size(rows).width,) * 3
    return (16, 32, 16, 8) if features <= 16 else (128, 256, 128, 64)
