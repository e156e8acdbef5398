"""Files that are there as a whole or not at all."""

import os
import uuid
from pathlib import Path

UNFINISHED = ".tmp"


def write_whole(path: Path, content: bytes) -> None:
    """The whole file under its name, or nothing: whatever happens, nobody sees a part of it."""
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
