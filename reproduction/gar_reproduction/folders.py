"""Folders: data, records of finished experiment cells, and unfinished work."""

import os
from pathlib import Path

from gar.errors import InputError

Folder = str | os.PathLike[str] | None
_CLONE = Path(__file__).parents[1]


def data_home(home: Folder = None) -> Path:
    """Return the data folder: ``home``, else the environment's ``GAR_DATA_HOME``, else a folder in the user's cache."""
    chosen = home or os.environ.get("GAR_DATA_HOME")
    return Path(chosen).expanduser() if chosen else _cache() / "data"


WHERE_RECORDS_ARE = (
    "records are in the folder reproduction/records of a clone: say where it is by --records FOLDER, or install the package from a "
    "clone: pip install -e ./reproduction"
)


def clone_records() -> Path | None:
    """Return the folder of the committed records, which a clone has beside this package; None outside of a clone."""
    return _CLONE / "records" if (_CLONE / "pyproject.toml").is_file() else None


def records_folder() -> Path:
    """Return the folder of the committed records; outside of a clone, the error says where records are."""
    if (folder := clone_records()) is not None:
        return folder
    raise InputError(f"{_CLONE} is no clone, so there is no folder of records beside the package; {WHERE_RECORDS_ARE}")


def scratch_folder() -> Path:
    """Return the folder of unfinished work, from which an interrupted run continues."""
    return _cache() / "reproduce"


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("gar", appauthor=False)
