"""Dataclasses as JSON and back, every value checked: a file from elsewhere is read as data, and what is wrong in it is named."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from gar.errors import InputError

T = TypeVar("T")
_INFINITIES = {math.inf: "Infinity", -math.inf: "-Infinity"}


def encode(value: object) -> str:
    """A dataclass as JSON. NaN, which JSON has no word for, becomes null, and an infinite number its name as text."""
    return json.dumps(_plain(value, "results"), indent=1, allow_nan=False)


def decode(kind: type[T], text: str | bytes) -> T:
    """The dataclass that :func:`encode` wrote; :class:`gar.errors.InputError` says which value of another text is wrong."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise InputError(f"this is not JSON ({error}); expected the results.json of a report") from error
    made: T = _typed(kind, data, "results")
    return made


def _plain(value: Any, place: str) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), f"{place}.{field.name}") for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{place}.{key}") for key, item in value.items()}
    if hasattr(value, "tolist"):  # arrays and numbers of numpy
        return _plain(value.tolist(), place)
    if isinstance(value, float) and not math.isfinite(value):
        return _INFINITIES.get(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(item, f"{place}[{number}]") for number, item in enumerate(value)]
    raise InputError(f"{place} is {value!r}, which results cannot hold; use text, numbers, lists and mappings")


def _typed(kind: Any, value: Any, place: str) -> Any:
    """``value`` as ``kind``, or an error that names its place."""
    if kind is Any:
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, value, place)
    if isinstance(kind, UnionType):
        inner = next(part for part in get_args(kind) if part is not type(None))
        return None if value is None else _typed(inner, value, place)
    if get_origin(kind) is Sequence:
        (inner,) = get_args(kind)
        return tuple(_typed(inner, item, f"{place}[{number}]") for number, item in enumerate(_a(list, value, place)))
    if get_origin(kind) is Mapping:
        inner = get_args(kind)[1]
        return {key: _typed(inner, item, f"{place}.{key}") for key, item in _a(dict, value, place).items()}
    return _number(value, place) if kind is float else _a(kind, value, place)


def _dataclass(kind: type, value: Any, place: str) -> Any:
    given, types = _a(dict, value, place), get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}
    for name in given:
        if name not in known:
            raise InputError(f"{place} has {name!r}, which this version does not know; read it with the version that wrote it")
    for name, field in known.items():
        if name not in given and field.default is MISSING and field.default_factory is MISSING:
            raise InputError(f"{place} has no {name!r}; expected the results.json of a report, whole and unchanged")
    return kind(**{name: _typed(types[name], item, f"{place}.{name}") for name, item in given.items()})


def _number(value: Any, place: str) -> float:
    if value is None:
        return math.nan
    for number, name in _INFINITIES.items():
        if value == name:
            return number
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unexpected(value, place, "a number")
    try:
        return float(value)
    except OverflowError:
        raise _unexpected(value, place, "a number that a float can hold") from None


def _a(kind: type, value: Any, place: str) -> Any:
    names = {list: "a list", dict: "an object", str: "text", int: "a whole number", bool: "true or false"}
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _unexpected(value, place, names[kind])
    return value


def _unexpected(value: Any, place: str, expected: str) -> InputError:
    shown = repr(value)
    return InputError(f"{place} is {shown[:60]}{'...' if len(shown) > 60 else ''}; expected {expected}")
