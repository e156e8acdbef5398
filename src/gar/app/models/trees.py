"""Boosted trees that predict together, and how they are saved: in their library's own text format, as tensors of bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.app.models.file import Description
from gar.app.models.folder import Model
from gar.boosting.library import tree_library
from gar.registry import FAMILIES, NETWORKS

if TYPE_CHECKING:
    import pandas as pd


class TargetModel(NamedTuple):
    """The trees of one target in one fold, as text of their library, and the center and scale of their predictions."""

    text: str
    center: float
    scale: float


class TreesDescription(Description):
    """The description of trees: for every fold, center and scale of each target."""

    library: str
    scales: tuple[tuple[tuple[float, float], ...], ...]


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

    def _content(self, shared: dict[str, Any]) -> tuple[Description, dict[str, Tensor]]:
        scales = tuple(tuple((one.center, one.scale) for one in row) for row in self.trees)
        tensors = {
            _name(fold, target): torch.frombuffer(bytearray(one.text.encode()), dtype=torch.uint8)
            for fold, row in enumerate(self.trees)
            for target, one in enumerate(row)
        }
        return TreesDescription(library=self.library, scales=scales, **shared), tensors


def restored_trees(text: str, tensors: Mapping[str, Tensor]) -> TreeModel:
    """Return the trees of a description and their texts."""
    found = TreesDescription.model_validate_json(text)
    if found.library == NETWORKS or found.library not in FAMILIES:
        raise ValueError(f"library {found.library!r} is none of {', '.join(name for name in FAMILIES if name != NETWORKS)}")
    names = {_name(fold, target) for fold, row in enumerate(found.scales) for target in range(len(row))}
    if [len(row) for row in found.scales] != [len(found.targets)] * len(found.encoders) or names != tensors.keys():
        raise ValueError(f"{len(tensors)} texts of trees for {len(found.encoders)} folds of {len(found.targets)} targets")
    trees = [
        [TargetModel(bytes(tensors[_name(fold, target)].numpy()).decode(), *scale) for target, scale in enumerate(row)]
        for fold, row in enumerate(found.scales)
    ]
    model = TreeModel(library=found.library, trees=trees, encoders=found.encoders, targets=found.targets, about=found.about)
    _ = model.boosters  # trees that cannot be used are an error now, not at the first prediction
    return model


def _name(fold: int, target: int) -> str:
    return f"trees-{fold}-{target}"
