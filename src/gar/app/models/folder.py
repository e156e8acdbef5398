"""The folder of a model: a description, and files that it names by their checksums."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gar import __version__
from gar.app.tables import Encoder
from gar.errors import InputError
from gar.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
ABOUT, WEIGHTS, TREES = "model.json", "weights.safetensors", "trees-"


class Model(Protocol):
    """What predicts from a table, and can be saved."""

    @property
    def targets(self) -> Sequence[str]:
        """What is predicted, by name."""

    @property
    def encoders(self) -> Sequence[Encoder]:
        """How columns become numbers, one encoder for each network or tree model; all know the same columns and categories."""

    @property
    def about(self) -> Mapping[str, Any]:
        """What else is known, such as loss and table."""

    def predict(self, frame: "pd.DataFrame") -> np.ndarray:
        """Predictions ``(rows, targets)`` in the units of the labels; other columns than the features' are not looked at."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model into a folder, which is made if need be."""


def write_model(
    folder: str | os.PathLike[str],
    files: Mapping[str, bytes],
    *,
    encoders: Sequence[Encoder],
    targets: Sequence[str],
    about: Mapping[str, Any],
    **more: object,
) -> None:
    """Write the files, then the description, and remove what an earlier model left."""
    description = {
        "format": FORMAT,
        "gar": __version__,
        **more,
        "targets": list(targets),
        "encoders": [json.loads(encoder.to_json()) for encoder in encoders],
        "about": dict(about),
    }
    text = json.dumps(description, indent=1, allow_nan=False).encode()
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(place / name, content)
    write_whole(place / ABOUT, text)
    for path in _parts(place):
        if path.name not in files:
            path.unlink(missing_ok=True)


def remove_model(folder: str | os.PathLike[str]) -> None:
    """Remove a model, and its folder unless there are other files in it. What is no model is left alone."""
    place = Path(folder)
    if not _is_model(place):
        return
    for path in (place / ABOUT, *_parts(place)):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # there are other files in it
        place.rmdir()


def _parts(folder: Path) -> list[Path]:
    """Files that a description may name."""
    return [folder / WEIGHTS, *folder.glob(f"{TREES}*")]


def _is_model(folder: Path) -> bool:
    try:
        about = json.loads((folder / ABOUT).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and {"format", "gar", "encoders"} <= about.keys()


def content_of(path: Path, checksum: str | None = None) -> bytes:
    """The bytes of a file, which are those that the description was written with."""
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
