"""Boosted trees that predict together, and how they are saved: in their library's own text format."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gar.app.models.folder import TREES, content_of, encoders_of, sha256, write_model
from gar.app.tables import Encoder
from gar.registry import FAMILIES, NETWORKS

if TYPE_CHECKING:
    import pandas as pd

    from gar.boosting.library import TreeLibrary


class TargetModel(NamedTuple):
    """The trees of one target in one fold, as text of their library, and the center and scale of their predictions."""

    text: str
    center: float
    scale: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeModel:
    """Boosted trees that predict together: the mean over folds, each of which encodes a table in its own way.

    Args:
        library: a name of :data:`gar.registry.FAMILIES`, such as ``"xgboost"``; the library must be installed.
        trees: for every fold, those of each target.
        encoders: how columns become numbers, one encoder per fold.
        targets: names of what is predicted.
        about: what else is known, such as loss, settings and scores; it must go into JSON.
    """

    library: str
    trees: Sequence[Sequence[TargetModel]]
    encoders: Sequence[Encoder]
    targets: Sequence[str]
    about: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, frame: "pd.DataFrame") -> np.ndarray:
        """Return predictions ``(rows, targets)`` in the units of the labels; columns that are no features are ignored."""
        return np.asarray(np.mean([self.predict_fold(fold, frame) for fold in range(len(self.trees))], axis=0))

    def predict_fold(self, fold: int, frame: "pd.DataFrame") -> np.ndarray:
        """Return the predictions of the trees of one fold, ``(rows, targets)``."""
        x, library = self.encoders[fold].transform(frame), self._library
        pairs = zip(self.trees[fold], self.boosters[fold], strict=True)
        return np.column_stack([one.center + one.scale * library.predict(booster, x) for one, booster in pairs])

    @property
    def _library(self) -> "TreeLibrary":
        library: TreeLibrary = FAMILIES[self.library].implementation()
        return library

    @cached_property
    def boosters(self) -> list[list[Any]]:
        """The library's own models, of every fold and target."""
        widths = [len(encoder.feature_names) for encoder in self.encoders]
        return [[self._library.from_text(one.text, width) for one in fold] for fold, width in zip(self.trees, widths, strict=True)]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the description and a file for every fold and target into a folder, which is created if it does not exist."""
        files, about = {}, []
        for fold, row in enumerate(self.trees):
            contents = [one.text.encode() for one in row]
            files.update({_file(self._library.suffix, fold, target): content for target, content in enumerate(contents)})
            pairs = zip(row, contents, strict=True)
            about.append([{"center": one.center, "scale": one.scale, "sha256": sha256(content)} for one, content in pairs])
        write_model(
            folder, files, encoders=self.encoders, targets=self.targets, about=self.about, library=self.library, trees=about
        )


def restored_trees(about: Mapping[str, Any], folder: Path) -> TreeModel:
    """Return the trees of a description and the files beside it."""
    library, described = str(about["library"]), about["trees"]
    if library == NETWORKS or library not in FAMILIES:
        raise ValueError(f"library {library!r} is none of {', '.join(name for name in FAMILIES if name != NETWORKS)}")
    encoders, targets = encoders_of(about), [str(name) for name in about["targets"]]
    if not described or len(encoders) != len(described) or any(len(row) != len(targets) for row in described):
        raise ValueError(f"{len(described)} folds of trees, {len(encoders)} encoders, {len(targets)} targets do not fit together")
    suffix = FAMILIES[library].implementation.suffix
    trees = [
        [_restored(one, folder / _file(suffix, fold, target)) for target, one in enumerate(row)]
        for fold, row in enumerate(described)
    ]
    model = TreeModel(library=library, trees=trees, encoders=encoders, targets=targets, about=about["about"])
    _ = model.boosters  # damaged trees are an error now, not at the first prediction
    return model


def _restored(described: Mapping[str, Any], path: Path) -> TargetModel:
    center, scale = float(described["center"]), float(described["scale"])
    if not (math.isfinite(center) and math.isfinite(scale)):
        raise ValueError(f"center {center} and scale {scale} of {path.name} must be finite")
    return TargetModel(content_of(path, str(described["sha256"])).decode(), center, scale)


def _file(suffix: str, fold: int, target: int) -> str:
    """Return a file name; it is never read from a description, which could ask for any other file."""
    return f"{TREES}{fold}-{target}.{suffix}"
