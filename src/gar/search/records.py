"""Records of finished chunks on disk: one folder per run, one ``.npz`` file per chunk, written as a whole or not at all."""

import hashlib
import io
import json
import os
import time
import warnings
import zipfile
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch

from gar import __version__
from gar.errors import InputError
from gar.files import UNFINISHED, write_whole
from gar.search.fingerprints import FORMAT, fingerprint, run_key
from gar.stack import History, Models, StackData, TrainSettings

_SUFFIX = ".npz"
_STALE_SECONDS = 3600.0  # writing a record takes a moment; a file unfinished for an hour was left by a process that was killed
NAME_DIGITS = 16


class RecordWarning(UserWarning):
    """A file among the records cannot be used; what it held is computed again."""


class RecordError(OSError):
    """A record could not be read or written; the message names the file and the remedy."""


class DamagedError(ValueError):
    """These bytes are not a whole record; the message says why."""


class Records:
    """The records of one search below ``folder``.

    The name of the run's folder is a fingerprint of its data, settings, precision, device and the version of this package, so a
    changed run has a folder of its own. Within it, a record is identified by its models: chunks may be cut anew at every start.

    Args:
        folder: folder of all runs; it is made if need be.
        data: the table and its folds.
        settings: settings of training.
        device: where models are trained.
        dtype: their precision.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        data: StackData,
        settings: TrainSettings,
        *,
        device: str | torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._settings, self._dtype, self._layout = settings, dtype, settings.layout(data)
        self.run = run_key(data, settings, device=device, dtype=dtype)
        about = {
            "torch": torch.__version__,
            "data": repr(data),
            "dtype": str(dtype),
            "device": torch.device(device).type,
            "settings": {field.name: getattr(settings, field.name) for field in fields(settings)},
        }
        self._files = RecordFolder(folder, self.run, about)
        self.folder = self._files.folder

    def read(self) -> Iterator[tuple[list[Hashable], History]]:
        """Yield keys and histories of the models of every record. A file that cannot be used is reported and put aside."""
        for path, arrays in self._files.read():
            try:
                record = self._decode(arrays)
            except DamagedError as error:
                put_aside(path, str(error))
            else:
                yield record

    def write(self, models: Models, history: History) -> None:
        """Write the history of these models."""
        columns = {f"model.{name}": column for name, column in models.columns().items()}
        values = {f"history.{name}": np.asarray(value) for name, value in history.arrays().items()}
        self._files.write(fingerprint((self.run, models.identities()))[:NAME_DIGITS], columns | values)

    def _decode(self, arrays: dict[str, np.ndarray]) -> tuple[list[Hashable], History]:
        columns = {name.removeprefix("model."): array for name, array in arrays.items() if name.startswith("model.")}
        if not columns or len({column.shape for column in columns.values()}) != 1:
            raise DamagedError("it does not say which models it holds")
        try:
            keys = Models(**columns).identities()
        except (TypeError, ValueError) as error:
            raise DamagedError(f"its models cannot be read: {error}") from error
        history = History.empty(self._layout, len(keys), self._settings, dtype=self._dtype)
        for name, values in history.arrays().items():
            value, stored = np.asarray(values), arrays.get(f"history.{name}")
            if stored is None or stored.shape != value.shape or stored.dtype != value.dtype:
                raise DamagedError(f"its {name} is missing or of the wrong shape")
            value[...] = stored  # np.asarray shares memory with the history
        return keys, history


class SearchHistory(Protocol):
    """Metrics of the models of a search, into which those of finished models are entered."""

    metrics: np.ndarray

    def __len__(self) -> int: ...
    def take(self, indices: np.ndarray, /) -> Self: ...
    def put(self, indices: np.ndarray, part: Self, /) -> None: ...


H = TypeVar("H", bound=SearchHistory)


class RecordStore(Protocol[H]):
    """Records of finished models on disk, as :class:`gar.search.records.Records`."""

    def read(self) -> Iterator[tuple[list[Hashable], H]]: ...
    def write(self, models: Any, history: H, /) -> None: ...


def read_records(store: RecordStore[H], models: Models, history: H) -> np.ndarray:
    """Enter what is recorded into the history, and return the indices of models that are not."""
    missing = {key: index for index, key in enumerate(models.identities())}
    for keys, part in store.read():
        rows = [row for row, key in enumerate(keys) if key in missing]
        indices = [missing.pop(keys[row]) for row in rows]
        history.put(np.array(indices, dtype=np.int64), part.take(np.array(rows, dtype=np.int64)))
    return np.array(list(missing.values()), dtype=np.int64)


class RecordFolder:
    """The records of one run below ``folder``, as arrays by name. Each of them names its run.

    Args:
        folder: folder of all runs; it is made if need be.
        run: fingerprint of all that the records of the run share.
        about: description of the run, for a reader of ``run.json``.
    """

    def __init__(self, folder: str | os.PathLike[str], run: str, about: Mapping[str, object]) -> None:
        self._run, self.folder = run, Path(folder) / run[:NAME_DIGITS]
        described = {"run": run, "format": FORMAT, "gar": __version__, **about}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_stale()
            write_whole(self.folder / "run.json", json.dumps(described, indent=1, default=repr).encode())
        except OSError as error:
            raise InputError(
                f"{str(folder)!r}, where records are to be kept, is not a folder that can be written to ({error}); "
                "choose another folder"
            ) from error

    def read(self) -> Iterator[tuple[Path, dict[str, np.ndarray]]]:
        """Yield the arrays of every record, with its file. A file that cannot be used is reported and put aside."""
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            try:
                arrays = from_bytes(path.read_bytes())
                if _run_of(arrays) != self._run:
                    raise DamagedError("it belongs to another run")
            except DamagedError as error:
                put_aside(path, str(error))
            except FileNotFoundError:
                continue  # another process has put it aside
            except OSError as error:
                raise RecordError(f"cannot read record {path}: {error}; make it readable, or move it away") from error
            else:
                yield path, arrays

    def write(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write these arrays. A record of the same name, which another process wrote, is the same."""
        path = self.folder / f"{name}{_SUFFIX}"
        header = json.dumps({"format": FORMAT, "gar": __version__, "run": self._run})
        try:
            write_whole(path, to_bytes({"header": np.array(header), **arrays}))
        except OSError as error:
            raise RecordError(
                f"cannot write record {path}: {error}; make room or choose another folder. Run the same search again to go on: "
                "what was finished before is kept"
            ) from error

    def _remove_stale(self) -> None:
        """Remove what a killed process had begun to write; it was never a record."""
        for path in self.folder.glob(f"*{UNFINISHED}"):
            with suppress(FileNotFoundError):  # another process has just finished it
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()


def _run_of(arrays: dict[str, np.ndarray]) -> object:
    try:
        return json.loads(str(arrays["header"]))["run"]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError("it is not a record") from error


def put_aside(path: Path, reason: str) -> None:
    """Rename a record that cannot be used, and warn. It is not deleted: it may be the only copy of something."""
    aside, number = path.with_name(f"{path.name}.corrupt"), 1
    while aside.exists():
        aside, number = path.with_name(f"{path.name}.{number}.corrupt"), number + 1
    try:
        path.rename(aside)
    except FileNotFoundError:
        return  # another process was quicker
    except OSError as error:
        raise RecordError(f"cannot rename record {path}, which cannot be used ({reason}): {error}; move it away") from error
    warnings.warn(
        f"record {path} cannot be used: {reason}. It is kept as {aside.name}, and its models are trained again",
        RecordWarning,
        stacklevel=2,
    )


# ---- A record as bytes: a plain .npz file, which np.load opens, and whose zip comment is a checksum of all the rest

_PREFIX = b"sha256:"
_COMMENT = len(_PREFIX) + 64
_NO_COMMENT = (0).to_bytes(2, "little")  # a zip file ends with the length of its comment and the comment


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return arrays by name as the bytes of an ``.npz`` file with a checksum; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    body = buffer.getvalue()
    return body[:-2] + _COMMENT.to_bytes(2, "little") + _checksum(body)


def from_bytes(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays by name; raise :class:`DamagedError` if the bytes are not exactly what :func:`to_bytes` returned."""
    if not content:
        raise DamagedError("it is empty")
    if not content.startswith(b"PK"):
        raise DamagedError("it is not a record")
    rest, length, comment = content[: -_COMMENT - 2], content[-_COMMENT - 2 : -_COMMENT], content[-_COMMENT:]
    body = rest + _NO_COMMENT
    if length != _COMMENT.to_bytes(2, "little") or comment != _checksum(body):
        raise DamagedError("its checksum is missing or wrong")
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:  # a right checksum over something else
        raise DamagedError(f"it cannot be read: {error}") from error


def _checksum(body: bytes) -> bytes:
    return _PREFIX + hashlib.sha256(body).hexdigest().encode()
