"""Networks as a model, and the folder of a saved model, which holds one file."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gar import __version__
from gar.app.models.file import FORMAT, UNREADABLE, Description, description_text, from_bytes, to_bytes
from gar.encoding import Encoder
from gar.errors import InputError
from gar.estimators.base import predictions
from gar.files import write_whole
from gar.stack import BoundedScaling, Layout, RobustScaling, Scaling, StackedMLP

if TYPE_CHECKING:
    import pandas as pd

FILE, EARLIER_FILE = "model.safetensors", "model.json"
_SCALINGS = ("features", "labels")
_ANEW = "save it anew with 'gar compare'"


@dataclass(frozen=True, kw_only=True, eq=False)
class Model(ABC):
    """An ensemble that predicts from a table, and can be saved: the mean of a model per fold, each with its own encoding.

    Args:
        encoders: how columns become numbers, one encoder per fold; all know the same columns and categories.
        targets: names of what is predicted.
        about: further description, such as loss and table; it must be serialisable as JSON.
    """

    encoders: Sequence[Encoder]
    targets: Sequence[str]
    about: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, frame: "pd.DataFrame") -> np.ndarray:
        """Return predictions ``(rows, targets)`` in the units of the labels; columns that are no features are ignored."""
        return np.asarray(np.mean([self.predict_fold(fold, frame) for fold in range(len(self.encoders))], axis=0))

    @abstractmethod
    def predict_fold(self, fold: int, frame: "pd.DataFrame") -> np.ndarray:
        """Return the predictions ``(rows, targets)`` of the model of one fold."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model into a folder, which is created if it does not exist.

        It is one file, which is replaced as a whole: a reader finds the old model or the new one, whoever else writes.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        shared = {"targets": tuple(self.targets), "encoders": tuple(self.encoders), "about": dict(self.about)}
        description, tensors = self._content(shared)
        write_whole(target / FILE, to_bytes(description.model_dump_json(), tensors))

    @abstractmethod
    def _content(self, shared: dict[str, Any]) -> tuple[Description, dict[str, Tensor]]:
        """Return the description, of which ``shared`` is a part, and the tensors of the file."""


class NetworksDescription(Description):
    """The description of networks: one for each encoder, all with one layout."""

    network: Layout


@dataclass(frozen=True, kw_only=True, eq=False)
class TableModel(Model):
    """A :class:`Model` of networks.

    Args:
        networks: one per fold, of one architecture.
        features: for each network, the scaling of its inputs; None is no scaling.
        labels: for each network, the scaling of its labels, which predictions undo; None is no scaling.
    """

    networks: StackedMLP
    features: Sequence[Scaling | None]
    labels: Sequence[Scaling | None]

    def predict_fold(self, fold: int, frame: "pd.DataFrame") -> np.ndarray:
        x = torch.from_numpy(self.encoders[fold].transform(frame))
        return np.asarray(predictions(self.networks.take([fold]), self.features[fold], self.labels[fold], x)[0])

    def _content(self, shared: dict[str, Any]) -> tuple[Description, dict[str, Tensor]]:
        tensors = {"networks": self.networks.weights.contiguous()}
        for name in _SCALINGS:
            scalings = [scaling for scaling in getattr(self, name) if scaling is not None]
            for part in fields(scalings[0]) if scalings else ():
                tensors[f"{name}.{part.name}"] = torch.stack([getattr(scaling, part.name) for scaling in scalings])
        return NetworksDescription(network=self.networks.layout, **shared), tensors


def remove_model(folder: str | os.PathLike[str]) -> None:
    """Remove a saved model, and its folder if no other files are in it. Anything that is no model is left alone."""
    target = Path(folder)
    try:
        description_text((target / FILE).read_bytes())
    except (OSError, *UNREADABLE):
        return
    (target / FILE).unlink(missing_ok=True)
    with suppress(OSError):  # other files are in it
        target.rmdir()


def load_model(folder: str | os.PathLike[str]) -> Model:
    """Return a model that ``save`` wrote. Anything else is an :class:`~gar.errors.InputError` that says what is wrong."""
    from gar.app.models.trees import restored_trees

    source = Path(folder)
    content = _content_of(source)
    try:
        text, about, tensors = from_bytes(content)
        _check_format(about["format"], source)
        return restored_trees(text, tensors) if "library" in about else _restored_networks(text, tensors)
    except InputError:
        raise
    except UNREADABLE as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"model {source} cannot be read ({reason}); it is damaged or not one of gar's") from error


def _content_of(folder: Path) -> bytes:
    try:
        return (folder / FILE).read_bytes()
    except OSError as error:
        if (folder / EARLIER_FILE).is_file():
            raise _other_format(folder, "an earlier format", _ANEW) from error
        raise InputError(
            f"{folder / FILE} cannot be read ({error.strerror}); give the folder that 'gar compare' saved a model in"
        ) from error


def _check_format(found: object, folder: Path) -> None:
    if found != FORMAT:
        is_newer = isinstance(found, int) and found > FORMAT
        raise _other_format(folder, f"format {found!r}", "update gar" if is_newer else _ANEW)


def _other_format(folder: Path, found: str, remedy: str) -> InputError:
    return InputError(f"model {folder} has {found}, and gar {__version__} reads format {FORMAT}; {remedy}")


def _restored_networks(text: str, tensors: Mapping[str, Tensor]) -> TableModel:
    """Return the networks of a description and their tensors."""
    description = NetworksDescription.model_validate_json(text)
    layout, encoders, targets = description.network, description.encoders, description.targets
    widths = {"features": len(encoders[0].feature_names), "labels": len(targets)}
    if len(layout.sizes) < 2 or min(layout.sizes) < 1 or (layout.sizes[0], layout.sizes[-1]) != tuple(widths.values()):
        raise ValueError(f"layers of {layout.sizes} for {widths['features']} features and {widths['labels']} targets")
    kinds = {name: _kind(name, tensors) for name in _SCALINGS}
    shapes = {f"{name}.{part.name}": (len(encoders), widths[name]) for name, kind in kinds.items() if kind for part in fields(kind)}
    _check_tensors(tensors, {"networks": (len(encoders), layout.length), **shapes})
    scalings = {name: _scalings(name, kind, tensors) if kind else [None] * len(encoders) for name, kind in kinds.items()}
    networks = StackedMLP(layout, tensors["networks"])
    return TableModel(networks=networks, encoders=encoders, targets=targets, about=description.about, **scalings)


def _kind(name: str, tensors: Mapping[str, Tensor]) -> type[Scaling] | None:
    """Return the kind of the scalings of this name, by the tensors that are there."""
    if f"{name}.center" not in tensors:
        return None
    return RobustScaling if f"{name}.knee" in tensors else BoundedScaling if f"{name}.low" in tensors else Scaling


def _scalings(name: str, kind: type[Scaling], tensors: Mapping[str, Tensor]) -> list[Scaling | None]:
    columns = [tensors[f"{name}.{part.name}"] for part in fields(kind)]
    return [kind(*values) for values in zip(*columns, strict=True)]


def _check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, int]]) -> None:
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != expected:
        raise ValueError(f"shapes {found}; expected {expected}")
    if not all(tensor.is_floating_point() and bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise ValueError("weights or scalings that are not finite numbers")
