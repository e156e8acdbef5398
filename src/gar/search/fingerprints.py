"""What makes two runs, or two models, the same: a fingerprint of everything that determines their numbers."""

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gar import __version__
from gar.errors import InputError
from gar.stack import Models, StackData, TrainSettings

FORMAT = 1
"""Of records on disk; a new number makes all older records those of other runs."""


def run_key(data: StackData, settings: TrainSettings, *, device: str | torch.device, dtype: torch.dtype) -> str:
    """Of everything that all models of a run share. A GPU rounds otherwise than a CPU, so the kind of device counts too."""
    shared = (FORMAT, __version__, str(dtype), torch.device(device).type)
    return fingerprint((shared, data, settings))


def model_keys(models: Models) -> list[Hashable]:
    """One value per model, equal for models that give equal numbers in the same run."""
    return column_keys(model_columns(models))


def column_keys(columns: Mapping[str, np.ndarray]) -> list[Hashable]:
    """The same from columns by name."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [(*columns, *row) for row in rows]


def model_columns(models: Models) -> dict[str, np.ndarray]:
    """All that models differ in, by name. Read from the object itself, so that nothing added to it later can be forgotten."""
    return {name: column for name, column in sorted(vars(models).items()) if column is not None}


def fingerprint(value: object) -> str:
    """SHA-256 of numbers, text, arrays, and structures of them.

    Example:
        >>> fingerprint((1, "a")) == fingerprint([1, "a"]) != fingerprint((1, "b"))
        True
    """
    digest = hashlib.sha256()
    for token in _tokens(value, "value"):
        digest.update(len(token).to_bytes(8, "little"))  # so that no two structures run together into the same bytes
        digest.update(token)
    return digest.hexdigest()


def _tokens(value: object, name: str) -> Iterator[bytes | memoryview]:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        yield repr(value).encode()
    elif isinstance(value, Tensor | np.ndarray):
        yield from _array_tokens(value, name)
    elif isinstance(value, list | tuple):
        yield f"sequence {len(value)}".encode()
        for place, item in enumerate(value):
            yield from _tokens(item, f"{name}[{place}]")
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
        return {field.name: getattr(value, field.name) for field in fields(value) if not _is_as_before(field, value)}
    raise _unknown(value, name)


def _is_as_before(field: Field[Any], value: object) -> bool:
    """Whether this is a later setting (see :data:`gar.stack.settings.LATER`) that was left alone."""
    return bool(field.metadata.get("later")) and getattr(value, field.name) == field.default


def _unknown(value: object, name: str) -> InputError:
    return InputError(
        f"{name.removeprefix('value')} is {value!r}, which cannot be told from others of its kind in records; "
        "use numbers, text, arrays or lists of them, or search with records=None"
    )
