"""Encode all folds of a table, each by its own training rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gar.encoding.encoder import Encoder


class EncodedFolds(NamedTuple):
    """Features of all folds.

    ``x`` are features, ``rows`` the row of the original table for each of them, ``parts`` the indices of each fold's parts in
    ``x``, of which the first is the training part, and ``encoders`` has a fitted encoder for each fold.
    """

    x: np.ndarray
    rows: np.ndarray
    parts: list[tuple[np.ndarray, ...]]
    encoders: list[Encoder]


def encode_folds(
    encoder: Encoder, codes: np.ndarray, y: np.ndarray, folds: Sequence[Sequence[ArrayLike]], weight: np.ndarray | None = None
) -> EncodedFolds:
    """Encode every fold with medians and mean labels of its own training rows.

    If none of the features depends on the fold, rows are encoded once, and folds share one encoder. Otherwise every fold has its
    own features of its rows.

    Args:
        encoder: inferred from this table.
        codes: its codes, from :meth:`Encoder.codes`.
        y: labels ``(rows, targets)``, NaN where one is missing.
        folds: for each fold the row numbers of its parts, the training rows first.
        weight: how often each row counts, ``(rows,)``.
    """
    parts = [tuple(np.asarray(part, dtype=np.int64) for part in fold) for fold in folds]
    counts = np.ones(len(codes)) if weight is None else weight
    if not encoder.depends_on_rows(codes):
        trained = np.unique(np.concatenate([fold[0] for fold in parts]))
        fitted = encoder.fit(codes[trained], y[trained], counts[trained])
        return EncodedFolds(fitted.encode(codes), np.arange(len(codes)), parts, [fitted] * len(parts))
    rows, places = np.concatenate([part for fold in parts for part in fold]), _consecutive(parts)
    encoders, x = [], np.empty((0, 0))
    for (train, *others), (place, *other_places) in zip(parts, places, strict=True):
        fitted, features = encoder.fit_encode(codes[train], y[train], counts[train])
        encoders.append(fitted)
        x = x if len(encoders) > 1 else np.empty((len(rows), features.shape[1]))
        x[place] = features
        for part, index in zip(others, other_places, strict=True):
            x[index] = fitted.encode(codes[part])
    return EncodedFolds(x, rows, places, encoders)


def _consecutive(parts: list[tuple[np.ndarray, ...]]) -> list[tuple[np.ndarray, ...]]:
    """Return parts of the same sizes, with rows numbered one after another."""
    ends = np.cumsum([len(part) for fold in parts for part in fold])
    pieces = iter(np.split(np.arange(ends[-1]), ends[:-1]))
    return [tuple(next(pieces) for _ in fold) for fold in parts]
