"""Extract members of a downloaded zip archive, which is not trusted."""

import os
import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

from gar.app.tables.unpacking import open_zip
from gar.errors import InputError


def extract(archive_file: Path, members: Mapping[str, Path], *, limit: int) -> None:
    """Extract members of a zip archive, by their exact names, to files.

    Nothing else is extracted, so a member cannot choose where it is written. The caller gives temporary names, and checks and
    renames the files.
    """
    with open_zip(archive_file, limit) as archive:
        for name, target in members.items():
            _extract_one(archive, name, target)


def _extract_one(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    try:
        member = archive.getinfo(name)
    except KeyError:
        raise InputError(f"{archive.filename} holds no {name!r}; is it another archive?") from None
    if member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
        raise InputError(f"{archive.filename}: {name!r} is a folder or a link; expected a file")
    with archive.open(member) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink)  # zipfile stops at the size in the directory, and then verifies the checksum
        sink.flush()
        os.fsync(sink.fileno())
