"""Atomic writing of files: a file is complete, or it does not exist."""

import os
import uuid
from pathlib import Path

UNFINISHED = ".tmp"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: after a crash or an error the old content is still there, never a part of the new one."""
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
