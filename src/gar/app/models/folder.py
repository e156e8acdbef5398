"""The folder of a saved model: a description, and files that it names by their checksums."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from safetensors import SafetensorError

from gar import __version__
from gar.app.tables import Encoder
from gar.errors import InputError
from gar.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
ABOUT, WEIGHTS, TREES = "model.json", "weights.safetensors", "trees-"


class Model(Protocol):
    """A model that predicts from a table, and can be saved."""

    @property
    def targets(self) -> Sequence[str]:
        """Return the names of what is predicted."""

    @property
    def encoders(self) -> Sequence[Encoder]:
        """Return the encoder of each network or tree model; all know the same columns and categories."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Return what else is known, such as loss and table."""

    def predict(self, frame: "pd.DataFrame") -> np.ndarray:
        """Return predictions ``(rows, targets)`` in the units of the labels; columns that are no features are ignored."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model into a folder, which is created if it does not exist."""


def write_model(
    folder: str | os.PathLike[str],
    files: Mapping[str, bytes],
    *,
    encoders: Sequence[Encoder],
    targets: Sequence[str],
    about: Mapping[str, Any],
    **more: object,
) -> None:
    """Write the files, then the description, and remove files of an earlier model."""
    description = {
        "format": FORMAT,
        "gar": __version__,
        **more,
        "targets": list(targets),
        "encoders": [json.loads(encoder.to_json()) for encoder in encoders],
        "about": dict(about),
    }
    text = json.dumps(description, indent=1, allow_nan=False).encode()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(target / name, content)
    write_whole(target / ABOUT, text)
    for path in _parts(target):
        if path.name not in files:
            path.unlink(missing_ok=True)


def _parts(folder: Path) -> list[Path]:
    """Return the files that a description may name."""
    return [folder / WEIGHTS, *folder.glob(f"{TREES}*")]


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
    from gar.app.models.networks import restored_networks
    from gar.app.models.trees import restored_trees

    source = Path(folder)
    text = content_of(source / ABOUT)
    try:
        about = json.loads(text)
        if about["format"] != FORMAT:
            raise InputError(f"model {source} has format {about['format']!r}, this version of gar reads {FORMAT}; save it anew")
        return restored_trees(about, source) if "trees" in about else restored_networks(about, source)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"model {source} cannot be read ({type(error).__name__}: {error}); it is damaged or not one of gar's"
        ) from error


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
