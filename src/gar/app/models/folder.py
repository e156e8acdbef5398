"""Networks as a model, and the folder of a saved model, which holds one file."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from gar import __version__
from gar.app.models.file import FORMAT, UNREADABLE, Description, description_text, from_bytes, to_bytes
from gar.encoding import Encoder
from gar.errors import InputError
from gar.estimators.base import Member, mean_prediction
from gar.files import write_whole
from gar.stack import (
    BoundedScaling,
    ExpandedFeatures,
    Layout,
    PeriodicFeatures,
    PiecewiseFeatures,
    RobustScaling,
    Scaling,
    StackedMLP,
)

if TYPE_CHECKING:
    import pandas as pd

FILE, EARLIER_FILE = "model.safetensors", "model.json"
_EXPANSIONS: dict[str, type[ExpandedFeatures]] = {"periodic": PeriodicFeatures, "piecewise": PiecewiseFeatures}
_EXPANSION = ("columns", "slopes", "offsets")
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


class MemberDescription(BaseModel):
    """What networks that read the same features have in common."""

    model_config = ConfigDict(extra="forbid", strict=True)

    network: Layout
    encoding: Literal["periodic", "piecewise"] | None = None


class NetworksDescription(Description):
    """The description of networks: for each encoder, its members."""

    members: tuple[tuple[MemberDescription, ...], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class TableModel(Model):
    """A :class:`Model` of networks, as those of :class:`gar.estimators.GARRegressorCV`: all of them count alike.

    Args:
        members: of every fold, its networks with their scalings.
    """

    members: Sequence[Sequence[Member]]

    def predict(self, frame: "pd.DataFrame") -> np.ndarray:
        every = [member for fold in self.members for member in fold]
        return mean_prediction(every, self.encoders[0].codes(frame))

    def predict_fold(self, fold: int, frame: "pd.DataFrame") -> np.ndarray:
        return mean_prediction(self.members[fold], self.encoders[fold].codes(frame))

    def _content(self, shared: dict[str, Any]) -> tuple[Description, dict[str, Tensor]]:
        numbered = [(f"{fold}.{index}", one) for fold, own in enumerate(self.members) for index, one in enumerate(own)]
        tensors = {f"{name}.{part}": tensor for name, one in numbered for part, tensor in _tensors(one).items()}
        described = tuple(tuple(map(_described, own)) for own in self.members)
        return NetworksDescription(members=described, **shared), tensors


def _described(member: Member) -> MemberDescription:
    encoding = next((name for name, kind in _EXPANSIONS.items() if isinstance(member.features, kind)), None)
    return MemberDescription.model_validate({"network": member.networks.layout, "encoding": encoding})


def _tensors(member: Member) -> dict[str, Tensor]:
    """Return weights, scalings and expanded features by name."""
    found, features = {"networks": member.networks.weights}, member.features
    if isinstance(features, ExpandedFeatures):
        found |= {name: getattr(features, name) for name in _EXPANSION}
        features = features.scaling
    for name, scaling in (("features", features), ("labels", member.labels)):
        if scaling is not None:
            found |= {f"{name}.{part.name}": getattr(scaling, part.name) for part in fields(scaling)}
    return {name: tensor.contiguous().clone() for name, tensor in found.items()}  # a file cannot hold one tensor twice


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
    found = NetworksDescription.model_validate_json(text)
    if len(found.members) != len(found.encoders) or not all(found.members):
        raise ValueError(f"networks of {len(found.members)} folds for {len(found.encoders)} encoders")
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        fold, index, part = name.split(".", 2)
        parts.setdefault(f"{fold}.{index}", {})[part] = tensor
    if parts.keys() != {f"{fold}.{index}" for fold, own in enumerate(found.members) for index in range(len(own))}:
        raise ValueError("other networks than are described")
    members = [
        [_restored_member(one, encoder, parts[f"{fold}.{index}"], len(found.targets)) for index, one in enumerate(own)]
        for fold, (own, encoder) in enumerate(zip(found.members, found.encoders, strict=True))
    ]
    return TableModel(members=members, encoders=found.encoders, targets=found.targets, about=found.about)


def _restored_member(described: MemberDescription, encoder: Encoder, tensors: Mapping[str, Tensor], targets: int) -> Member:
    """Return networks of one layout with their scalings, after all shapes and values were checked."""
    layout, widths = described.network, {"features": len(encoder.feature_names), "labels": targets}
    kinds = {name: _kind(name, tensors) for name in widths}
    shape = None if described.encoding is None else _expansion_shape(tensors)
    inputs = widths["features"] + (0 if shape is None else shape[0] * shape[1])
    if len(layout.sizes) < 2 or min(layout.sizes) < 1 or (layout.sizes[0], layout.sizes[-1]) != (inputs, targets):
        raise ValueError(f"layers of {layout.sizes} for {inputs} features and {targets} targets")
    expected: dict[str, tuple[int, ...]] = {"networks": (max(1, len(tensors["networks"])), layout.length)}
    expected |= {f"{name}.{part.name}": (widths[name],) for name, kind in kinds.items() if kind for part in fields(kind)}
    expected |= {} if shape is None else {"columns": shape[:1], "slopes": shape, "offsets": shape}
    _check_tensors(tensors, expected, widths["features"])
    scalings = {name: None if kind is None else _scaling(name, kind, tensors) for name, kind in kinds.items()}
    features: Scaling | ExpandedFeatures | None = scalings["features"]
    if described.encoding is not None:
        assert isinstance(features, Scaling)
        features = _EXPANSIONS[described.encoding](features, *(tensors[name] for name in _EXPANSION))
    return Member(StackedMLP(layout, tensors["networks"]), encoder, features, scalings["labels"])


def _expansion_shape(tensors: Mapping[str, Tensor]) -> tuple[int, int]:
    """Return the number of columns that are expanded, and into how many features each."""
    slopes = tensors.get("slopes", torch.zeros(0, 0))
    if slopes.ndim != 2 or min(slopes.shape) < 1 or "features.center" not in tensors:
        raise ValueError("expanded features without columns or scaling")
    return slopes.shape[0], slopes.shape[1]


def _kind(name: str, tensors: Mapping[str, Tensor]) -> type[Scaling] | None:
    """Return the kind of the scaling of this name, by the tensors that are there."""
    if f"{name}.center" not in tensors:
        return None
    return RobustScaling if f"{name}.knee" in tensors else BoundedScaling if f"{name}.low" in tensors else Scaling


def _scaling(name: str, kind: type[Scaling], tensors: Mapping[str, Tensor]) -> Scaling:
    return kind(*(tensors[f"{name}.{part.name}"] for part in fields(kind)))


def _check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], features: int) -> None:
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != expected:
        raise ValueError(f"shapes {found}; expected {expected}")
    columns = tensors.get("columns", torch.zeros(1, dtype=torch.int64))
    if columns.dtype != torch.int64 or not 0 <= int(columns.min()) <= int(columns.max()) < features:
        raise ValueError(f"expanded features of columns that are none of {features} features")
    numbers = [tensor for name, tensor in tensors.items() if name != "columns"]
    if not all(tensor.is_floating_point() and bool(tensor.isfinite().all()) for tensor in numbers):
        raise ValueError("weights or scalings that are not finite numbers")
