"""From a table with names to folds of numbers."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from gar.app.compare.options import Options
from gar.app.compare.source import Source
from gar.app.tables import Encoder, Parts, encode_folds, group_folds, shuffled_folds
from gar.errors import InputError
from gar.estimators.presets import check_labels
from gar.stack import StackData

_OF_DIFFERENT_LABELS = ("pearson", "spearman", "r2")
"""Metrics that say nothing where labels are equal."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """What the networks are trained on, and what it was made from."""

    source: Source
    """With rows that have a label only."""
    data: StackData
    encoders: tuple[Encoder, ...]
    """One for every fold, with what its training rows say about missing values."""
    parts: list[Parts]
    notes: tuple[str, ...]

    @property
    def train_rows(self) -> int:
        """Of a fold; the smallest where they differ."""
        return min(len(train) for train, _, _ in self.parts)

    @property
    def tested(self) -> tuple[pd.DataFrame, np.ndarray]:
        """Features and labels of the test rows."""
        test = self.parts[0][2]
        return self.source.features.iloc[test], self.source.labels[test]


def prepare(source: Source, options: Options) -> Prepared:
    """Split the rows and encode the features of every fold with what its own training rows say."""
    kept, notes = _with_labels(source)
    parts = _parts(kept, options)
    check_labels(kept.labels, [repr(name) for name in kept.targets])
    notes += _on_equal_labels(kept, parts, options.metric)
    encoder = Encoder.infer(kept.features)
    encoded = encode_folds(encoder, kept.features, kept.labels, parts, scale_labels=options.scale_labels)
    return Prepared(
        source=kept,
        data=encoded.data,
        encoders=tuple(encoded.encoders),
        parts=parts,
        notes=(*source.notes, *notes, *encoder.notes),
    )


def _parts(source: Source, options: Options) -> list[Parts]:
    """The paper's protocol; with groups, no group is in two parts."""
    common = {"folds": options.folds, "seed": options.seed}
    return shuffled_folds(len(source.labels), **common) if source.groups is None else group_folds(source.groups, **common)


def _on_equal_labels(source: Source, parts: list[Parts], metric: str) -> list[str]:
    """A note for each target that test or validation rows cannot judge; an error if it is to be judged by just that."""
    places = [
        ("the test rows", parts[0][2]),
        *((f"the validation rows of fold {k}", valid) for k, (_, valid, _) in enumerate(parts)),
    ]
    notes = []
    for name, labels in zip(source.targets, source.labels.T, strict=True):
        where = ", ".join(place for place, rows in places if _are_equal(labels[rows]))
        if not where:
            continue
        what = f"target {name!r} has the same label everywhere, or none, in {where}"
        if metric in _OF_DIFFERENT_LABELS:
            raise InputError(f"{what}, so {metric} cannot judge there; use another --seed, fewer --folds, or --metric mae")
        notes.append(f"{what}: correlation and R2 say nothing there.")
    return notes


def _are_equal(labels: np.ndarray) -> bool:
    """Whether no two of those that are there differ."""
    known = labels[~np.isnan(labels)]
    return len(known) == 0 or bool(known.min() == known.max())


def _with_labels(source: Source) -> tuple[Source, list[str]]:
    """Without rows that have no label at all; what is missing is said."""
    missing = np.isnan(source.labels)
    kept = np.flatnonzero(~missing.all(1))
    notes = []
    if len(kept) < len(missing):
        notes.append(f"{len(missing) - len(kept)} of {len(missing)} rows have no label and were left out.")
    if missing[kept].any():
        notes.append(f"{int(missing[kept].sum())} of {missing[kept].size} labels are missing; training and metrics leave them out.")
    groups = None if source.groups is None else source.groups[kept]
    features = source.features.iloc[kept].reset_index(drop=True)
    return replace(source, features=features, labels=source.labels[kept], groups=groups), notes
