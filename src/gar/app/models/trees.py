"""Boosted trees that predict together, and how they are kept: in the own format of their library."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gar.app.models.folder import TREES, content_of, encoders_of, sha256, write_model
from gar.app.tables import Encoder
from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Predict = Callable[[np.ndarray], np.ndarray]


class Trees(NamedTuple):
    """One target in one fold: what the library wrote, and the level and unit of its predictions."""

    text: str
    center: float
    scale: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeModel:
    """Boosted trees that predict together: the mean of what those of each fold make of a table, with its own encoding.

    Args:
        library: ``"xgboost"`` or ``"lightgbm"``, which must be installed.
        trees: for every fold, those of each target.
        encoders: of every fold: how columns become numbers.
        targets: what is predicted, by name.
        about: what else is known: loss, settings, scores. It must go into JSON.
    """

    library: str
    trees: Sequence[Sequence[Trees]]
    encoders: Sequence[Encoder]
    targets: Sequence[str]
    about: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, frame: "pd.DataFrame") -> np.ndarray:
        """Predictions ``(rows, targets)`` in the units of the labels; other columns than the features' are not looked at."""
        return np.asarray(np.mean([self._predict_one(place, frame) for place in range(len(self.trees))], axis=0))

    def _predict_one(self, place: int, frame: "pd.DataFrame") -> np.ndarray:
        x = self.encoders[place].transform(frame)
        known = zip(self.trees[place], self._readers[place], strict=True)
        return np.column_stack([one.center + one.scale * np.asarray(read(x), dtype=np.float64) for one, read in known])

    @cached_property
    def _readers(self) -> list[list[Predict]]:
        widths = [len(encoder.feature_names) for encoder in self.encoders]
        return [[_reader(self.library, one.text, width) for one in fold] for fold, width in zip(self.trees, widths, strict=True)]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the description and a file for every fold and target into a folder, which is made if need be."""
        files = {
            _file(self.library, fold, target): one.text.encode()
            for fold, row in enumerate(self.trees)
            for target, one in enumerate(row)
        }
        about = [
            [{"center": one.center, "scale": one.scale, "sha256": sha256(one.text.encode())} for one in row] for row in self.trees
        ]
        write_model(
            folder, files, encoders=self.encoders, targets=self.targets, about=self.about, library=self.library, trees=about
        )


def restored_trees(about: Mapping[str, Any], folder: Path) -> TreeModel:
    """The trees of a description and the files beside it."""
    library, described = str(about["library"]), about["trees"]
    if library not in _READERS:
        raise ValueError(f"library {library!r} is none of {', '.join(_READERS)}")
    encoders, targets = encoders_of(about), [str(name) for name in about["targets"]]
    if not described or len(encoders) != len(described) or any(len(row) != len(targets) for row in described):
        raise ValueError(f"{len(described)} folds of trees, {len(encoders)} encoders, {len(targets)} targets do not fit together")
    trees = [
        [_restored(one, folder / _file(library, fold, target)) for target, one in enumerate(row)]
        for fold, row in enumerate(described)
    ]
    model = TreeModel(library=library, trees=trees, encoders=encoders, targets=targets, about=about["about"])
    _ = model._readers  # whatever is wrong with the trees shows now, and not when they are needed
    return model


def _restored(described: Mapping[str, Any], path: Path) -> Trees:
    center, scale = float(described["center"]), float(described["scale"])
    if not (math.isfinite(center) and math.isfinite(scale)):
        raise ValueError(f"center {center} and scale {scale} of {path.name} must be finite")
    return Trees(content_of(path, str(described["sha256"])).decode(), center, scale)


def _file(library: str, fold: int, target: int) -> str:
    """Made here and never read from a description, so that no other file can be asked for."""
    return f"{TREES}{fold}-{target}.{'json' if library == 'xgboost' else 'txt'}"


def _xgboost(text: str, features: int) -> Predict:
    xgboost = _imported("xgboost")
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(text.encode()))
    _check_features(booster.num_features(), features)
    return lambda x: np.asarray(booster.inplace_predict(x))


def _lightgbm(text: str, features: int) -> Predict:
    lightgbm = _imported("lightgbm")
    try:
        booster = lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(str(error)) from error
    _check_features(booster.num_feature(), features)
    return lambda x: np.asarray(booster.predict(x, num_threads=1))


_READERS = {"xgboost": _xgboost, "lightgbm": _lightgbm}


def _reader(library: str, text: str, features: int) -> Predict:
    return _READERS[library](text, features)


def _check_features(count: int, expected: int) -> None:
    if count != expected:
        raise ValueError(f"trees for {count} features, but the table is encoded as {expected}")


def _imported(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise InputError(f"this model needs the package {library}; install it with: pip install 'gar[boosting]'") from error
