"""Compressed files that are not trusted: what they claim is checked, and counted again while they are read."""

import os
import shutil
import stat
import zipfile
from collections.abc import Mapping
from gzip import GzipFile
from pathlib import Path
from typing import IO

from gar.errors import InputError

MANY = 1 << 30
"""Bytes that a file may unpack to, if nothing else is said."""
_BLOCK = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unpacked(stream: IO[bytes] | GzipFile, limit: int, *, name: str) -> bytes:
    """All of a stream that is unpacked while it is read, unless it is longer than ``limit``."""
    count_unpacked(stream, limit, name=name)  # first without keeping anything: a bomb must not fill the memory
    stream.seek(0)
    return stream.read()


def count_unpacked(stream: IO[bytes] | GzipFile, limit: int, *, name: str) -> int:
    size = 0
    while block := stream.read(_BLOCK):
        size += len(block)
        if size > limit:
            raise InputError(f"{name} unpacks to more than {limit} bytes; if you trust it, unpack it yourself or raise the limit")
    return size


def check_zip(file: Path, limit: int) -> None:
    """A zip archive whose members together unpack to at most ``limit`` bytes, by its directory and in truth."""
    with open_zip(file) as archive:
        check_directory(archive, limit, name=str(file))
        for member in archive.infolist():
            with archive.open(member) as stream:
                count_unpacked(stream, limit, name=str(file))  # zipfile stops at the claimed size, and checks the sum


def open_zip(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(f"{file} is not a whole zip archive ({error}); get it again") from error


def check_directory(archive: zipfile.ZipFile, limit: int, *, name: str) -> None:
    claimed = sum(member.file_size for member in archive.infolist())
    if claimed > limit:
        raise InputError(f"{name} claims to unpack to {claimed} bytes, more than {limit}; if you trust it, raise the limit")
    for member in archive.infolist():
        if member.compress_type not in _METHODS or member.flag_bits & 1:
            raise InputError(f"{name}: {member.filename!r} is encrypted or compressed in an unusual way; pack it anew")


def extract(archive_file: Path, wanted: Mapping[str, Path], *, limit: int = MANY) -> None:
    """Members of a zip archive, by their exact names, into files.

    Nothing else is unpacked, so a member cannot choose where it is written. Files appear under temporary names (the target's with
    ``.tmp``): the caller checks and renames them.
    """
    with open_zip(archive_file) as archive:
        check_directory(archive, limit, name=str(archive_file))
        for name, target in wanted.items():
            _extract_one(archive, name, target)


def _extract_one(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    try:
        member = archive.getinfo(name)
    except KeyError:
        raise InputError(f"{archive.filename} holds no {name!r}; is it another archive?") from None
    if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
        raise InputError(f"{archive.filename}: {name!r} is a folder or a link; expected a file")
    try:
        with archive.open(member) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)  # zipfile stops at the size in the directory, and then checks the sum
            sink.flush()
            os.fsync(sink.fileno())
    except zipfile.BadZipFile as error:
        raise InputError(f"{archive.filename}: {name!r} is damaged ({error}); get the archive again") from error
