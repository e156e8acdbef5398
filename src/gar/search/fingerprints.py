"""Fingerprints of runs: equal where everything that determines their numbers is equal."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gar import __version__
from gar.errors import InputError
from gar.stack import StackData, TrainSettings

FORMAT = 2
"""Format number of records on disk. Bump this to invalidate older records."""


def run_key(data: StackData, settings: TrainSettings, *, device: str | torch.device, dtype: torch.dtype) -> str:
    """Return the fingerprint of all that the models of a run share; a GPU rounds differently, so the kind of device counts."""
    shared = (FORMAT, __version__, str(dtype), torch.device(device).type)
    return fingerprint((shared, data, settings))


def fingerprint(value: object) -> str:
    """Return the SHA-256 of numbers, text, arrays, and structures of them.

    Example:
        >>> fingerprint((1, "a")) == fingerprint([1, "a"]) != fingerprint((1, "b"))
        True
    """
    checksum = hashlib.sha256()
    for token in _tokens(value, "value"):
        checksum.update(len(token).to_bytes(8, "little"))  # so that no two structures run together into the same bytes
        checksum.update(token)
    return checksum.hexdigest()


def _tokens(value: object, name: str) -> Iterator[bytes | memoryview]:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        yield repr(value).encode()
    elif isinstance(value, Tensor | np.ndarray):
        yield from _array_tokens(value, name)
    elif isinstance(value, list | tuple):
        yield f"sequence {len(value)}".encode()
        for index, item in enumerate(value):
            yield from _tokens(item, f"{name}[{index}]")
    else:
        fields = _fields(value, name)
        yield f"fields {len(fields)}".encode()
        for key, item in sorted(fields.items(), key=lambda pair: str(pair[0])):
            yield repr(key).encode()
            yield from _tokens(item, f"{name}.{key}")


def _array_tokens(value: Tensor | np.ndarray, name: str) -> Iterator[bytes | memoryview]:
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        raise _unknown(value, name)
    yield f"{value.dtype} {tuple(value.shape)}".encode()
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    yield np.ascontiguousarray(value).reshape(-1).view(np.uint8).data


def _fields(value: object, name: str) -> Mapping[Any, object]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, StackData):
        return vars(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise _unknown(value, name)


def _unknown(value: object, name: str) -> InputError:
    return InputError(
        f"{name.removeprefix('value')} is {value!r}, which records cannot distinguish from others of its kind; "
        "use numbers, text, arrays or lists of them, or search with records=None"
    )
