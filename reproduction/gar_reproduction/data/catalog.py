"""The catalog of data sets: size, licence, citation, files, and what a reader of results should know; see ``catalog.toml``."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from gar.errors import InputError

Origin = Literal["uci", "yours", "generated", "bundled"]
"""Downloaded from UCI's archive, a file that only you can get, computed here, or part of scikit-learn."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One file of a data set, below the data folder.

    ``sha256`` is that of the public original, where it is known; a download must match it. ``known_copies`` are other files
    with the same table: their checksum, and what differs.
    """

    path: str
    sha256: str | None = None
    other_paths: tuple[str, ...] = ()
    known_copies: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the file may be; a download is written to the first."""
        return (self.path, f"{self.path}.gz", *self.other_paths)


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Describes a data set. ``archive`` is the path of its zip file at UCI."""

    name: str
    title: str
    rows: int
    features: int
    targets: tuple[str, ...]
    licence: str
    citation: str
    homepage: str
    origin: Origin
    archive: str | None = None
    files: tuple[File, ...] = ()
    groups: str | None = None
    quirks: tuple[str, ...] = ()


def _read() -> dict[str, DataSet]:
    found: dict[str, dict[str, Any]] = {}
    for name, entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items():
        found[name] = found.get(entry.pop("like", ""), {}) | entry
    return {name: _data_set(name, **entry) for name, entry in found.items()}


def _data_set(name: str, *, files: list[dict[str, Any]] | None = None, **entry: Any) -> DataSet:
    frozen: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    known = tuple(File(**{**file, "other_paths": tuple(file.get("other_paths", ()))}) for file in files or ())
    return DataSet(name=name, files=known, **frozen)


_BY_NAME = _read()


def names() -> list[str]:
    """Return the names of all data sets."""
    return list(_BY_NAME)


def describe(name: str) -> DataSet:
    """Return the description of a data set.

    Example:
        >>> describe("concrete").rows
        1030
    """
    if name not in _BY_NAME:
        near = get_close_matches(str(name), _BY_NAME, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(_BY_NAME)}"
        raise InputError(f"data set {name!r} is unknown; {hint}")
    return _BY_NAME[name]
