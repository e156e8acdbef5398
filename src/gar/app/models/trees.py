"""Boosted trees that predict together, and how they are saved: in their library's own text format."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gar.app.models.folder import TREES, Model, content_of, encoders_of, sha256
from gar.boosting.library import tree_library
from gar.registry import FAMILIES, NETWORKS

if TYPE_CHECKING:
    import pandas as pd


class TargetModel(NamedTuple):
    """The trees of one target in one fold, as text of their library, and the center and scale of their predictions."""

    text: str
    center: float
    scale: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeModel(Model):
    """A :class:`~gar.app.models.Model` of boosted trees.

    Args:
        library: a name of :data:`gar.registry.FAMILIES`, such as ``"xgboost"``; the library must be installed.
        trees: for every fold, those of each target.
    """

    library: str
    trees: Sequence[Sequence[TargetModel]]

    def predict_fold(self, fold: int, frame: "pd.DataFrame") -> np.ndarray:
        x, library = self.encoders[fold].transform(frame), tree_library(self.library)
        pairs = zip(self.trees[fold], self.boosters[fold], strict=True)
        return np.column_stack([one.center + one.scale * library.predict(booster, x) for one, booster in pairs])

    @cached_property
    def boosters(self) -> list[list[Any]]:
        """The library's own models, of every fold and target."""
        library, pairs = tree_library(self.library), zip(self.trees, self.encoders, strict=True)
        return [[library.from_text(one.text, len(encoder.feature_names)) for one in fold] for fold, encoder in pairs]

    def save(self, folder: str | os.PathLike[str]) -> None:
        files, about, suffix = {}, [], tree_library(self.library).suffix
        for fold, row in enumerate(self.trees):
            contents = [one.text.encode() for one in row]
            files.update({_file(suffix, fold, target): content for target, content in enumerate(contents)})
            pairs = zip(row, contents, strict=True)
            about.append([{"center": one.center, "scale": one.scale, "sha256": sha256(content)} for one, content in pairs])
        self._write(folder, files, library=self.library, trees=about)


def restored_trees(about: Mapping[str, Any], folder: Path) -> TreeModel:
    """Return the trees of a description and the files beside it."""
    library, described = str(about["library"]), about["trees"]
    if library == NETWORKS or library not in FAMILIES:
        raise ValueError(f"library {library!r} is none of {', '.join(name for name in FAMILIES if name != NETWORKS)}")
    encoders, targets = encoders_of(about), [str(name) for name in about["targets"]]
    if not described or len(encoders) != len(described) or any(len(row) != len(targets) for row in described):
        raise ValueError(f"{len(described)} folds of trees, {len(encoders)} encoders, {len(targets)} targets do not fit together")
    suffix = tree_library(library).suffix
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
