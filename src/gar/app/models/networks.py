"""Networks that predict together, and how they are kept: weights as safetensors."""

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
    """Networks that predict together: the mean of what each makes of a table, with its own encoding and scaling.

    Args:
        networks: one or more, of one architecture.
        encoders: of every network: how columns become numbers.
        features: of every network: how these are scaled; None is not at all.
        labels: the same for predictions.
        targets: what is predicted, by name.
        about: what else is known: loss, settings, scores. It must go into JSON.
    """

    networks: StackedMLP
    encoders: Sequence[Encoder]
    features: Sequence[Scaling | None]
    labels: Sequence[Scaling | None]
    targets: Sequence[str]
    about: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, frame: "pd.DataFrame") -> np.ndarray:
        """Predictions ``(rows, targets)`` in the units of the labels; other columns than the features' are not looked at."""
        return np.asarray(np.mean([self._predict_one(place, frame) for place in range(len(self.networks))], axis=0))

    def _predict_one(self, place: int, frame: "pd.DataFrame") -> np.ndarray:
        x = torch.from_numpy(self.encoders[place].transform(frame))
        return np.asarray(fold_predictions(self.networks, place, (self.features[place], self.labels[place]), x))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write description and weights into a folder, which is made if need be."""
        weights = tensors_to_bytes(self._tensors())
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

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {"networks": self.networks.weights.contiguous()}
        for name in _SCALINGS:
            scalings = [scaling for scaling in getattr(self, name) if scaling is not None]
            if scalings:
                tensors[f"{name}.center"] = torch.stack([scaling.center for scaling in scalings])
                tensors[f"{name}.scale"] = torch.stack([scaling.scale for scaling in scalings])
        return tensors


def restored_networks(about: Mapping[str, Any], folder: Path) -> TableModel:
    """The networks of a description and the weights beside it."""
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
    networks(torch.zeros(1, inputs))  # whatever is wrong with the network shows now, and not when it is needed
    return TableModel(networks=networks, encoders=encoders, targets=targets, about=about["about"], **scalings)


def _scalings(name: str, tensors: Mapping[str, Tensor], shape: tuple[int, int]) -> list[Scaling | None]:
    center, scale = (_checked(tensors[f"{name}.{part}"], shape, f"{name}.{part}") for part in ("center", "scale"))
    return [Scaling(*pair) for pair in zip(center, scale, strict=True)]


def _checked(tensor: Tensor, shape: tuple[int, int], name: str) -> Tensor:
    if tuple(tensor.shape) != shape or not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)} or values that are not finite; expected numbers {shape}")
    return tensor
