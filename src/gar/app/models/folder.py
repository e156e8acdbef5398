"""Networks as a model, and the folder of a saved model: a description, and files that it names by their checksums."""

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes, save as tensors_to_bytes
from torch import Tensor

from gar import __version__
from gar.app.tables import Encoder
from gar.errors import InputError
from gar.estimators.base import fold_predictions
from gar.files import write_whole
from gar.stack import Layout, Scaling, StackedMLP

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 2
ABOUT, WEIGHTS, TREES = "model.json", "weights.safetensors", "trees-"
_SCALINGS = ("features", "labels")


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

    @abstractmethod
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model into a folder, which is created if it does not exist."""

    def _write(self, folder: str | os.PathLike[str], files: Mapping[str, bytes], **more: object) -> None:
        """Write the files, then the description, and remove files of an earlier model."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        earlier = [path for path in _parts(target) if path.name not in files]
        description = {
            "format": FORMAT,
            "gar": __version__,
            **more,
            "targets": list(self.targets),
            "encoders": [json.loads(encoder.to_json()) for encoder in self.encoders],
            "about": dict(self.about),
        }
        text = json.dumps(description, indent=1, allow_nan=False).encode()
        for name, content in files.items():
            write_whole(target / name, content)
        write_whole(target / ABOUT, text)
        for path in earlier:
            path.unlink(missing_ok=True)


def _parts(folder: Path) -> list[Path]:
    """Return the files that a description may name."""
    return [folder / WEIGHTS, *folder.glob(f"{TREES}*")]


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
        return np.asarray(fold_predictions(self.networks, fold, (self.features[fold], self.labels[fold]), x))

    def save(self, folder: str | os.PathLike[str]) -> None:
        tensors = {"networks": self.networks.weights.contiguous()}
        for name in _SCALINGS:
            scalings = [scaling for scaling in getattr(self, name) if scaling is not None]
            if scalings:
                tensors[f"{name}.center"] = torch.stack([scaling.center for scaling in scalings])
                tensors[f"{name}.scale"] = torch.stack([scaling.scale for scaling in scalings])
        weights = tensors_to_bytes(tensors)
        self._write(
            folder,
            {WEIGHTS: weights},
            network=asdict(self.networks.layout),
            networks=len(self.networks),
            scaled=[name for name in _SCALINGS if getattr(self, name)[0] is not None],
            weights_sha256=sha256(weights),
        )


def remove_model(folder: str | os.PathLike[str]) -> None:
    """Remove a saved model, and its folder if no other files are in it. Anything that is no model is left alone."""
    target = Path(folder)
    try:
        about = json.loads((target / ABOUT).read_bytes())
    except (OSError, ValueError):
        return
    if not isinstance(about, dict) or not {"format", "gar", "encoders"} <= about.keys():
        return
    for path in (target / ABOUT, *_parts(target)):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # other files are in it
        target.rmdir()


def load_model(folder: str | os.PathLike[str]) -> Model:
    """Return a model that ``save`` wrote. Anything else is an :class:`~gar.errors.InputError` that says what is wrong."""
    from gar.app.models.trees import restored_trees

    source = Path(folder)
    text = content_of(source / ABOUT)
    try:
        about = json.loads(text)
        if about["format"] != FORMAT:
            raise InputError(f"model {source} has format {about['format']!r}, this version of gar reads {FORMAT}; save it anew")
        return restored_trees(about, source) if "trees" in about else _restored_networks(about, source)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"model {source} cannot be read ({type(error).__name__}: {error}); it is damaged or not one of gar's"
        ) from error


def _restored_networks(about: Mapping[str, Any], folder: Path) -> TableModel:
    """Return the networks of a description, with the weights beside it."""
    tensors = tensors_from_bytes(content_of(folder / WEIGHTS, str(about["weights_sha256"])))
    layout = Layout(**{**about["network"], "sizes": tuple(int(size) for size in about["network"]["sizes"])})
    count = int(about["networks"])
    inputs, outputs = layout.sizes[0], layout.sizes[-1]
    encoders = encoders_of(about)
    targets = [str(name) for name in about["targets"]]
    if count < 1 or len(encoders) != count or len(targets) != outputs:
        raise ValueError(f"{count} networks, {len(encoders)} encoders, {len(targets)} targets for {outputs} outputs")
    table = _checked(tensors["networks"], (count, layout.length), "networks")
    scalings = {
        name: _scalings(name, tensors, (count, width)) if name in about["scaled"] else [None] * count
        for name, width in zip(_SCALINGS, (inputs, outputs), strict=True)
    }
    networks = StackedMLP(layout, table)
    networks(torch.zeros(1, inputs))  # an error in the network shows now, and not at the first prediction
    return TableModel(networks=networks, encoders=encoders, targets=targets, about=about["about"], **scalings)


def _scalings(name: str, tensors: Mapping[str, Tensor], shape: tuple[int, int]) -> list[Scaling | None]:
    center, scale = (_checked(tensors[f"{name}.{part}"], shape, f"{name}.{part}") for part in ("center", "scale"))
    return [Scaling(*pair) for pair in zip(center, scale, strict=True)]


def _checked(tensor: Tensor, shape: tuple[int, int], name: str) -> Tensor:
    if tuple(tensor.shape) != shape or not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)} or values that are not finite; expected numbers {shape}")
    return tensor


def content_of(path: Path, checksum: str | None = None) -> bytes:
    """Return the bytes of a file, checked against the checksum of the description."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); give the folder that 'gar compare' saved a model in"
        ) from error
    if checksum is not None and sha256(content) != checksum:
        raise InputError(f"model {path.parent} is damaged: {path.name} is not the file that {ABOUT} was written with")
    return content


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def encoders_of(about: Mapping[str, Any]) -> list[Encoder]:
    return [Encoder.from_json(json.dumps(encoder)) for encoder in about["encoders"]]
