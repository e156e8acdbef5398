"""Read compressed files that are not trusted: their claimed sizes are checked, and counted again while they are read."""

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import GzipFile
from pathlib import Path
from typing import IO

from gar.errors import InputError

DEFAULT_LIMIT = 1 << 30
"""Number of bytes that a file may unpack to by default."""
_BLOCK = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_gzip(file: Path, limit: int) -> bytes:
    """Return the content of a gzip file, unless it is longer than ``limit`` bytes."""
    with gzip.open(file) as stream:
        _check_size(stream, limit, file)  # first without storing anything: a zip bomb must not fill the memory
        stream.seek(0)
        return stream.read()


def check_zip(file: Path, limit: int) -> None:
    """Raise an error if the members of a zip archive, claimed or in fact, unpack to more than ``limit`` bytes."""
    with open_zip(file, limit) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                _check_size(stream, limit, file)  # zipfile stops at the claimed size, and verifies the checksum


@contextmanager
def open_zip(file: Path, limit: int) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive whose directory claims at most ``limit`` bytes; damage found then or later is reported."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_directory(archive, limit)
            yield archive
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(f"{file} is damaged, or not a whole zip archive ({error}); get it again") from error


def _check_directory(archive: zipfile.ZipFile, limit: int) -> None:
    claimed, name = sum(member.file_size for member in archive.infolist()), archive.filename
    if claimed > limit:
        raise InputError(f"{name} claims to unpack to {claimed} bytes, more than {limit}; if you trust it, raise the limit")
    for member in archive.infolist():
        if member.compress_type not in _METHODS or member.flag_bits & 1:
            raise InputError(f"{name}: {member.filename!r} is encrypted or compressed with an unusual method; pack it again")


def _check_size(stream: IO[bytes] | GzipFile, limit: int, file: Path) -> None:
    size = 0
    while block := stream.read(_BLOCK):
        size += len(block)
        if size > limit:
            raise InputError(f"{file} unpacks to more than {limit} bytes; if you trust it, unpack it yourself or raise the limit")
