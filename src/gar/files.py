"""Atomic writing of files: a file is complete, or it does not exist."""

import os
import uuid
from pathlib import Path

UNFINISHED = ".tmp"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: after a crash or an error the old content is still there, never a part of the new one.

    A link stays a link, and the file that it points to is replaced. A pipe or a device is written to, as by any other program.
    An ``OSError`` names the file, a full disk's too.
    """
    try:
        if is_special(path):
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_special(path: Path) -> bool:
    """Return True for what exists and is neither a regular file nor a link to one or to nothing."""
    return path.exists() and not path.is_file()


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}{UNFINISHED}")
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
