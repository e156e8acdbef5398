"""A folder of records: one file for each, written at once or not at all."""

import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from gar import __version__
from gar.errors import InputError
from gar.files import UNFINISHED, write_whole
from gar.search.container import DamagedError, from_bytes, to_bytes
from gar.search.fingerprints import FORMAT

_SUFFIX = ".npz"
_STALE_SECONDS = 3600.0  # writing a record takes a moment; a file unfinished for so long was left by a process that was killed
NAME_DIGITS = 16


class RecordWarning(UserWarning):
    """A file among the records cannot be used; what it held is computed again."""


class RecordError(OSError):
    """A record could not be read or written; the message names the file and says what to do."""


class RecordFolder:
    """The records of one run below ``folder``, as arrays by name. Whose they are stands in each of them.

    Args:
        folder: of all runs; it is made if need be.
        run: a fingerprint of all that the records of the run share.
        about: the same in words, for a reader of ``run.json``.
    """

    def __init__(self, folder: str | os.PathLike[str], run: str, about: Mapping[str, object]) -> None:
        self._run, self.folder = run, Path(folder) / run[:NAME_DIGITS]
        described = {"run": run, "format": FORMAT, "gar": __version__, **about}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._sweep()
            write_whole(self.folder / "run.json", json.dumps(described, indent=1, default=repr).encode())
        except OSError as error:
            raise InputError(
                f"{str(folder)!r}, where records are to be kept, is not a folder that can be written to ({error}); "
                "choose another folder"
            ) from error

    def read(self) -> Iterator[tuple[Path, dict[str, np.ndarray]]]:
        """The arrays of every record, with its file. A file that cannot be used is named in a warning and put aside."""
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            try:
                arrays = from_bytes(path.read_bytes())
                if self._run_of(arrays) != self._run:
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
        """Keep these arrays. A record of the same name, which another process wrote, is the same."""
        path = self.folder / f"{name}{_SUFFIX}"
        header = json.dumps({"format": FORMAT, "gar": __version__, "run": self._run})
        try:
            write_whole(path, to_bytes({"header": np.array(header), **arrays}))
        except OSError as error:
            raise RecordError(
                f"cannot write record {path}: {error}; make room or choose another folder. Run the same search again to go on: "
                "what was finished before is kept"
            ) from error

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


def put_aside(path: Path, reason: str) -> None:
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
