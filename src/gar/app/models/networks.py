"""An ensemble of networks as a model, saved as safetensors."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from gar.app.models.folder import WEIGHTS, content_of, encoders_of, sha256, write_model
from gar.app.tables import Encoder
from gar.estimators.presets import fold_predictions
from gar.stack import Layout, Scaling, StackedMLP

if TYPE_CHECKING:
    import pandas as pd

_SCALINGS = ("features", "labels")


@dataclass(frozen=True, kw_only=True, eq=False)
class TableModel:
    """An ensemble of networks: it predicts the mean of their predictions, each with its own encoding and scaling.

    Args:
        networks: one or more, of one architecture.
        encoders: for each network, how columns become numbers.
        features: for each network, the scaling of its inputs; None is no scaling.
        labels: for each network, the scaling of its labels, which predictions undo; None is no scaling.
        targets: names of what is predicted.
        about: further description, such as loss and table; it must be serialisable as JSON.
    """

    networks: StackedMLP
    encoders: Sequence[Encoder]
    features: Sequence[Scaling | None]
    labels: Sequence[Scaling | None]
    targets: Sequence[str]
    about: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, frame: "pd.DataFrame") -> np.ndarray:
        """Return predictions ``(rows, targets)`` in the units of the labels; columns that are no features are ignored."""
        return np.asarray(np.mean([self.predict_one(index, frame) for index in range(len(self.networks))], axis=0))

    def predict_one(self, index: int, frame: "pd.DataFrame") -> np.ndarray:
        """Return the predictions ``(rows, targets)`` of one network."""
        x = torch.from_numpy(self.encoders[index].transform(frame))
        return np.asarray(fold_predictions(self.networks, index, (self.features[index], self.labels[index]), x))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write description and weights into a folder, which is created if it does not exist."""
        tensors = {"networks": self.networks.table.contiguous()}
        for name in _SCALINGS:
            scalings = [scaling for scaling in getattr(self, name) if scaling is not None]
            if scalings:
                tensors[f"{name}.center"] = torch.stack([scaling.center for scaling in scalings])
                tensors[f"{name}.scale"] = torch.stack([scaling.scale for scaling in scalings])
        weights = tensors_to_bytes(tensors)
        write_model(
            folder,
            {WEIGHTS: weights},
            encoders=self.encoders,
            targets=self.targets,
            about=self.about,
            network=asdict(self.networks.layout),
            networks=len(self.networks),
            scaled=[name for name in _SCALINGS if getattr(self, name)[0] is not None],
            weights_sha256=sha256(weights),
        )


def restored_networks(about: Mapping[str, Any], folder: Path) -> TableModel:
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
