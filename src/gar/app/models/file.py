"""The file of a saved model: safetensors, with metadata that describe the model and hold a checksum of the whole file."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from gar import __version__
from gar.encoding import Encoder

FORMAT = 5
_KEY = "gar"
UNSIGNED = "0" * 64
"""Stands for the checksum while it is computed. It comes first in the description, and so first in the file."""
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, RuntimeError, SafetensorError)
"""What the attempt to read something else than a model may raise."""


class Description(BaseModel):
    """Everything about a model but its weights or trees. It is read strictly: unknown keys and other types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    sha256: str = UNSIGNED
    format: int = FORMAT
    gar: str = __version__
    targets: tuple[str, ...]
    encoders: tuple[Encoder, ...]
    about: dict[str, Any]

    @model_validator(mode="after")
    def _check(self) -> "Description":
        if not self.targets or len({tuple(encoder.feature_names) for encoder in self.encoders}) != 1:
            raise ValueError("targets, or encoders of the same features, are missing")
        return self


def to_bytes(description: str, tensors: Mapping[str, Tensor]) -> bytes:
    """Return the content of the file, from the description as JSON and the tensors; equal models give equal bytes."""
    content = save(dict(tensors), {_KEY: description})
    return content.replace(UNSIGNED.encode(), _sha256(content), 1)


def description_text(content: bytes) -> str:
    """Return the description, as JSON, that stands in the header of the file."""
    length = int.from_bytes(content[:8], "little")
    return str(json.loads(content[8 : 8 + length])["__metadata__"][_KEY])


def from_bytes(content: bytes) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    """Return the description as text and as unchecked values, and the tensors, if these are the bytes that were written.

    The checksum is checked before the format, so a later format that is to be told from a damaged file must keep it.
    """
    text = description_text(content)
    about = json.loads(text)
    checksum = about["sha256"].encode()
    if _sha256(content.replace(checksum, UNSIGNED.encode(), 1)) != checksum:
        raise ValueError("the checksum is wrong")
    return text, about, load(content)


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
