"""The files of data sets: where they are, how to get them, and their download from UCI's archive.

pooch speaks HTTP. Beyond what it does, a download that broke continues behind its last whole block, also in a later call; a file
is never larger than it may be; only members that the catalog names are unpacked, and kept if their checksums are right; and of
several processes one downloads while the others wait.
"""

import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gar.errors import InputError
from gar_reproduction.data.catalog import DataSet, File, describe
from gar_reproduction.folders import Folder, data_home

UCI_URL = "https://archive.ics.uci.edu"
LARGEST = 1 << 28
"""Bytes; no archive, and none of the tables in it, is a tenth of that."""
_ATTEMPTS, _BLOCK = 3, 1 << 12
_RESUMED, _RANGE_NOT_SATISFIABLE = 206, 416

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and the size of the file, if the server reports it."""


class DownloadError(InputError, OSError):
    """A file could not be downloaded; the message says why, and what to do by hand."""


def path(name: str, *, home: Folder = None) -> Path:
    """Return the folder of a data set, which need not exist yet. Generated and bundled ones have no files, so no folder."""
    entry = describe(name)
    if not entry.files:
        raise InputError(f"{name!r} has no files: it is {entry.origin}")
    return (data_home(home) / entry.files[0].path).parent


def available(name: str, *, home: Folder = None) -> bool:
    """Return True if all files of a data set are in the data folder. Generated and bundled ones need none."""
    return all(_find(file, home) for file in describe(name).files)


def located(name: str, *, home: Folder = None) -> list[Path]:
    """Return the files of a data set, or raise an error that says how to get a missing one."""
    entry = describe(name)
    found = [_find(file, home) for file in entry.files]
    if missing := [file.path for file, location in zip(entry.files, found, strict=True) if location is None]:
        raise InputError(f"{entry.title} is not in {data_home(home)}: {_how_to_get(entry, missing, home)}")
    return [location for location in found if location is not None]


def _find(file: File, home: Folder) -> Path | None:
    """Return where a file is, in any of its forms, or None."""
    return next((location for location in (data_home(home) / name for name in file.paths) if location.is_file()), None)


def notes_on(entry: DataSet, home: Folder = None) -> tuple[str, ...]:
    """Return what to know of a data set, and of those of its files here that are known copies instead of the original."""
    found = [(file, _find(file, home)) for file in entry.files if file.known_copies]
    notes = (file.known_copies.get(_sha256(location)) for file, location in found if location is not None)
    return (*entry.quirks, *(note for note in notes if note is not None))


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _how_to_get(entry: DataSet, missing: list[str], home: Folder) -> str:
    """Say in one line which command to run, or which file to put where by hand."""
    wanted = " and ".join(str(data_home(home) / name) for name in missing)
    if entry.origin == "uci":
        return (
            f"run 'gar data fetch {entry.name}', or download {UCI_URL}/{entry.archive} by hand and put "
            f"{' and '.join(Path(name).name for name in missing)} from it at {wanted}"
        )
    return f"it cannot be downloaded for you ({entry.licence}); see {entry.homepage} and put the file at {wanted}"


def fetch(
    name: str,
    *,
    home: Folder = None,
    base: str | None = None,
    timeout: float = 30.0,
    deadline: float = 600.0,
    progress: Progress | None = None,
) -> list[Path]:
    """Return the files of a data set, and download those that are not there yet.

    Args:
        name: of the catalog. Generated and bundled data sets have no files; those that only you can get are not downloaded.
        home: the data folder; None takes the usual one.
        base: address of the archive; None takes the environment's ``GAR_UCI_URL``, else UCI's.
        timeout: seconds to wait for a server that does not answer.
        deadline: seconds for the whole download, however slowly it trickles; the next call continues it.
        progress: called with the bytes received and the size of the file, if known.

    Raises:
        InputError: the download failed; the message says which file to put where by hand.
    """
    from filelock import FileLock

    entry = describe(name)
    if entry.archive is None or available(name, home=home):
        return located(name, home=home)
    folder = path(name, home=home)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the data folder {folder} cannot be made ({error}); choose another with GAR_DATA_HOME") from error
    with FileLock(folder / ".fetching.lock"):  # a second process waits, and then finds the files
        missing = [file for file in entry.files if _find(file, home) is None]
        if missing:
            url = f"{(base or os.environ.get('GAR_UCI_URL') or UCI_URL).rstrip('/')}/{entry.archive}"
            _fetch_missing(entry, missing, url, home, Patience(timeout, time.monotonic() + deadline), progress)
    return located(name, home=home)


class Patience(NamedTuple):
    """How long to wait for a server: seconds of silence, and the end of the download on the clock of ``time.monotonic``."""

    silence: float
    end: float


def _fetch_missing(
    entry: DataSet, missing: list[File], url: str, home: Folder, patience: Patience, progress: Progress | None
) -> None:
    part = path(entry.name, home=home) / f".{Path(url).name}.part"
    is_resumed = part.exists()
    try:
        _download(url, part, patience, progress)
    except DownloadError as error:
        by_hand = _how_to_get(entry, [file.path for file in missing], home)
        raise DownloadError(f"{url} could not be downloaded: {error}; {by_hand}") from error
    try:
        _unpack(part, missing, data_home(home))
    except InputError as error:
        part.unlink(missing_ok=True)
        if not is_resumed:
            raise InputError(f"{url} is not what it should be: {error}") from error
        _fetch_missing(entry, missing, url, home, patience, progress)  # halves of two different files: once more from the start


def _download(url: str, part: Path, patience: Patience, progress: Progress | None) -> None:
    """Download into ``part``, continuing behind what is already in it. After an error, the next call continues."""
    from pooch import HTTPDownloader  # type: ignore[import-untyped]
    from requests import HTTPError, RequestException
    from requests.exceptions import ChunkedEncodingError

    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"{url!r} is no web address; expected one that begins with https://")
    for _ in range(_ATTEMPTS):
        with closing(_Sink(part, patience.end, progress)) as sink:
            headers = {"User-Agent": "gar", "Accept-Encoding": "identity"} | ({"Range": f"bytes={sink.size}-"} if sink.size else {})
            receive = HTTPDownloader(chunk_size=_BLOCK, timeout=patience.silence, headers=headers, hooks={"response": sink.begin})
            try:
                receive(url, sink, None)
                if sink.total == sink.size or (sink.total is None and not sink.is_late):
                    return
            except (HTTPError, ChunkedEncodingError) as error:
                answer = sink.response
                if answer.status_code == _RANGE_NOT_SATISFIABLE:
                    sink.empty()  # longer than the file: it was another one
                elif not answer.ok:
                    raise DownloadError(f"the server answered {answer.status_code} {answer.reason}") from error
            except RequestException as error:
                reason = f"no answer within {patience.silence:g} s" if "timed out" in str(error) else str(error)
                raise DownloadError(reason) from error
            reason = f"the connection broke after {sink.size}{'' if sink.total is None else f' of {sink.total}'} bytes"
            if sink.is_late:
                raise DownloadError(f"{reason}: it was too slow, and its time was up; the same command continues")
    raise DownloadError(reason)


class _Sink:
    """The end of a file, as pooch writes to it: counts bytes and reports progress."""

    def __init__(self, part: Path, end: float, progress: Progress | None) -> None:
        self._stream, self._end, self._progress = part.open("ab"), end, progress
        self._timer: threading.Timer | None = None
        self.is_late = False
        self.size: int = self._stream.tell()
        self.total: int | None = None
        self.response: Any = None

    def begin(self, response: Any, **_: Any) -> None:
        """Look at an answer before its content arrives: a server that cannot resume sends the file from its start."""
        self.response = response
        if response.ok and not response.is_redirect:
            self._timer = threading.Timer(max(0.0, self._end - time.monotonic()), self._give_up)
            self._timer.start()
            if response.status_code != _RESUMED:
                self.empty()
            length = response.headers.get("Content-Length", "")
            self.total = self.size + int(length) if length.isdigit() else None

    def _give_up(self) -> None:
        """End a read, which waits for a whole block however slowly it comes."""
        self.is_late = True
        self.response.raw.shutdown()

    def empty(self) -> None:
        self._stream.truncate(0)
        self.size = 0

    def write(self, block: bytes) -> None:
        self.size += len(block)
        if self.size > LARGEST:
            raise DownloadError(f"it is larger than {LARGEST} bytes, which it should not be")
        self._stream.write(block)
        if self._progress is not None:
            self._progress(self.size, self.total)

    def flush(self) -> None:
        """Do nothing: pooch asks for it after every block."""

    def close(self) -> None:
        """Close the file, and the connection, which pooch leaves open after an error."""
        if self._timer is not None:
            self._timer.cancel()
        self._stream.close()
        if self.response is not None:
            self.response.close()


def _unpack(archive: Path, files: list[File], home: Path) -> None:
    """Unpack all files or none: checked under temporary names, then renamed."""
    from gar_reproduction.data.extraction import extract

    unfinished = [(file, home / f"{file.path}.tmp") for file in files]
    try:
        extract(archive, {Path(file.path).name: location for file, location in unfinished}, limit=LARGEST)
        for file, location in unfinished:
            if file.sha256 not in (None, found := _sha256(location)):
                name = Path(file.path).name
                raise InputError(f"{name} has the checksum {found}; expected {file.sha256}: it is damaged, or was changed")
        for file, location in unfinished:
            location.replace(home / file.path)
    finally:
        for _, location in unfinished:
            location.unlink(missing_ok=True)
    archive.unlink()
