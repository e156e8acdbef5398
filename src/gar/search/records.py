"""Finished chunks on disk: one folder per run, one file per chunk, written at once or not at all."""

import json
import os
import time
import warnings
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gar import __version__
from gar.errors import InputError
from gar.files import UNFINISHED, write_whole
from gar.search.container import DamagedError, from_bytes, to_bytes
from gar.search.identity import FORMAT, column_keys, fingerprint, model_columns, model_keys, run_key
from gar.stack import History, Models, StackData, TrainSettings
from gar.stack.packing import network_layout

_SUFFIX = ".npz"
_STALE_SECONDS = 3600.0  # writing a record takes a moment; a file unfinished for so long was left by a process that was killed
_NAME_DIGITS = 16


class RecordWarning(UserWarning):
    """A file among the records cannot be used; what it held is computed again."""


class RecordError(OSError):
    """A record could not be read or written; the message names the file and says what to do."""


class Records:
    """The records of one run below ``folder``.

    The name of the run's folder is a fingerprint of its data, settings, precision, device and the version of this package, so a
    changed run has a folder of its own. Within it, a record is known by its models: chunks may be cut anew at every start.

    Args:
        folder: of all runs; it is made if need be.
        data: the table and its folds.
        settings: of training.
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
        self._settings, self._dtype, self._layout = settings, dtype, network_layout(data, settings)
        self.run = run_key(data, settings, device=device, dtype=dtype)
        self.folder = Path(folder) / self.run[:_NAME_DIGITS]
        about = {
            "run": self.run,
            "format": FORMAT,
            "gar": __version__,
            "torch": torch.__version__,
            "data": repr(data),
            "dtype": str(dtype),
            "device": torch.device(device).type,
            "settings": {field.name: getattr(settings, field.name) for field in fields(settings)},
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            write_whole(self.folder / "run.json", json.dumps(about, indent=1, default=repr).encode())
        except OSError as error:
            raise InputError(
                f"records={str(folder)!r} is not a folder that can be written to ({error}); choose another, or records=None"
            ) from error

    def read(self) -> Iterator[tuple[list[Hashable], History]]:
        """Keys and histories of the models of every record. A file that cannot be used is named in a warning and put aside."""
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            try:
                record = self._decode(path.read_bytes())
            except DamagedError as error:
                _put_aside(path, str(error))
            except FileNotFoundError:
                continue  # another process has put it aside
            except OSError as error:
                raise RecordError(f"cannot read record {path}: {error}; make it readable, or move it away") from error
            else:
                yield record

    def write(self, models: Models, history: History) -> None:
        """Keep the history of these models. A record of the same models, which another process wrote, is the same."""
        path = self.folder / f"{fingerprint((self.run, model_keys(models)))[:_NAME_DIGITS]}{_SUFFIX}"
        try:
            write_whole(path, to_bytes(self._encode(models, history)))
        except OSError as error:
            raise RecordError(
                f"cannot write record {path}: {error}; make room or choose another folder. Run the same search again to go on: "
                "what was finished before is kept"
            ) from error

    def _encode(self, models: Models, history: History) -> dict[str, np.ndarray]:
        columns = {f"model.{name}": column for name, column in model_columns(models).items()}
        header = json.dumps({"format": FORMAT, "gar": __version__, "run": self.run})
        return {"header": np.array(header), **columns, **{f"history.{n}": v for n, v in _arrays(history).items()}}

    def _decode(self, content: bytes) -> tuple[list[Hashable], History]:
        arrays = from_bytes(content)
        if self._run_of(arrays) != self.run:
            raise DamagedError("it belongs to another run")
        columns = {name.removeprefix("model."): arrays[name] for name in sorted(arrays) if name.startswith("model.")}
        if not columns or len({column.shape for column in columns.values()}) != 1:
            raise DamagedError("it does not say which models it holds")
        keys = column_keys(columns)
        history = History.empty(self._layout, len(keys), self._settings, dtype=self._dtype)
        for name, value in _arrays(history).items():
            stored = arrays.get(f"history.{name}")
            if stored is None or stored.shape != value.shape or stored.dtype != value.dtype:
                raise DamagedError(f"its {name} is missing or of the wrong shape")
            value[...] = stored
        return keys, history

    @staticmethod
    def _run_of(arrays: dict[str, np.ndarray]) -> object:
        try:
            header = json.loads(str(arrays["header"]))
            return header["run"]
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError("it is not a record") from error

    def _sweep(self) -> None:
        """Remove what a killed process had begun to write; it was never a record."""
        for path in self.folder.glob(f"*{UNFINISHED}"):
            with suppress(FileNotFoundError):  # another process has just finished it
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    path.unlink()


def _arrays(history: History) -> dict[str, np.ndarray]:
    """All that was measured or kept, by name, sharing memory with the history."""
    values = {field.name: getattr(history, field.name) for field in fields(history)}
    numbers = {name: value.numpy() if isinstance(value, Tensor) else value for name, value in values.items()}
    return {name: value for name, value in numbers.items() if isinstance(value, np.ndarray)}


def _put_aside(path: Path, reason: str) -> None:
    """Out of the way, but not away: it may be all that is left of something."""
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
