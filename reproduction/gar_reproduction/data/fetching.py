"""Data sets from their public homes: downloaded, checked, unpacked, and only then put under their names."""

import os
from pathlib import Path

from filelock import FileLock

from gar.errors import InputError
from gar_reproduction.data.catalog import DataSet, File, describe
from gar_reproduction.data.download import DownloadError, Progress, download
from gar_reproduction.data.extraction import extract
from gar_reproduction.data.home import UCI_URL, Folder, available, data_home, find, how_to_get, located, path, sha256_of

LARGEST = 1 << 28
"""Bytes; no archive, and none of the tables in it, is a tenth of that."""


def fetch(
    name: str, *, home: Folder = None, base: str | None = None, timeout: float = 30.0, progress: Progress | None = None
) -> list[Path]:
    """The files of a data set, downloaded if they are not there yet.

    Args:
        name: one of :func:`names`. Generated and bundled ones have no files; those that only you can get are not downloaded.
        home: the data folder; None takes the usual one.
        base: address of the archive; None takes the environment's ``GAR_UCI_URL``, else UCI's.
        timeout: seconds to wait for a server that says nothing.
        progress: called with the bytes received and the size of the file, if known.

    Raises:
        InputError: it cannot be had; the message says which file to put where by hand.
    """
    entry = describe(name)
    if entry.archive is None or available(name, home=home):
        return located(name, home=home)
    folder = path(name, home=home)
    _make(folder)
    with FileLock(folder / ".fetching.lock"):  # a second process waits, and then finds the files
        missing = [file for file in entry.files if find(file, home) is None]
        if missing:
            _fetch_missing(entry, missing, home, base or os.environ.get("GAR_UCI_URL") or UCI_URL, timeout, progress)
    return located(name, home=home)


def _fetch_missing(entry: DataSet, missing: list[File], home: Folder, base: str, timeout: float, progress: Progress | None) -> None:
    url = f"{base.rstrip('/')}/{entry.archive}"
    part = path(entry.name, home=home) / f".{Path(str(entry.archive)).name}.part"
    resumed = part.exists()
    try:
        download(url, part, limit=LARGEST, timeout=timeout, progress=progress)
    except DownloadError as error:
        by_hand = how_to_get(entry, [file.path for file in missing], home)
        raise DownloadError(f"{error}; {by_hand}") from error
    try:
        _unpack(part, missing, data_home(home))
    except InputError as error:
        part.unlink(missing_ok=True)
        if not resumed:
            raise InputError(f"{url} is not what it should be: {error}") from error
        _fetch_missing(entry, missing, home, base, timeout, progress)  # halves of two different files: once more from the start


def _unpack(archive: Path, files: list[File], home: Path) -> None:
    """All files or none: checked under temporary names, then renamed."""
    unfinished = [(file, home / f"{file.path}.tmp") for file in files]
    try:
        extract(archive, {Path(file.path).name: place for file, place in unfinished}, limit=LARGEST)
        for file, place in unfinished:
            _check(file, place)
        for file, place in unfinished:
            place.replace(home / file.path)
    finally:
        for _, place in unfinished:
            place.unlink(missing_ok=True)
    archive.unlink()


def _check(file: File, place: Path) -> None:
    found = sha256_of(place)
    if file.sha256 not in (None, found):
        raise InputError(f"{Path(file.path).name} has the checksum {found}; expected {file.sha256}: it is damaged, or was changed")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the data folder {folder} cannot be made ({error}); choose another with GAR_DATA_HOME") from error
