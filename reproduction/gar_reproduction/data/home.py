"""The data folder: where it is, what is in it, and what to say when something is not."""

import hashlib
import os
from pathlib import Path

from gar.errors import InputError
from gar_reproduction.data.catalog import DataSet, File, describe

UCI_URL = "https://archive.ics.uci.edu"
Folder = str | os.PathLike[str] | None


def data_home(home: Folder = None) -> Path:
    """The data folder: ``home``, else the environment's ``GAR_DATA_HOME``, else a folder in the user's cache."""
    chosen = home or os.environ.get("GAR_DATA_HOME")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("gar", appauthor=False) / "data"


def path(name: str, *, home: Folder = None) -> Path:
    """The folder of a data set, which need not exist yet. Generated and bundled ones have no files, so no folder."""
    entry = describe(name)
    if not entry.files:
        raise InputError(f"{name!r} has no files: it is {entry.origin}")
    return (data_home(home) / entry.files[0].path).parent


def available(name: str, *, home: Folder = None) -> bool:
    """Whether all files of a data set are there. Generated and bundled ones always are."""
    return all(find(file, home) for file in describe(name).files)


def find(file: File, home: Folder) -> Path | None:
    """Where the file is, in any of its forms, or None."""
    return next((place for place in (data_home(home) / name for name in file.paths) if place.is_file()), None)


def located(name: str, *, home: Folder = None) -> list[Path]:
    """The files of a data set; an error that says how to get them where one is missing."""
    entry = describe(name)
    places = [find(file, home) for file in entry.files]
    missing = [file.path for file, place in zip(entry.files, places, strict=True) if place is None]
    if missing:
        raise InputError(f"{entry.title} is not in {data_home(home)}: {how_to_get(entry, missing, home)}")
    return [place for place in places if place is not None]


def notes_on(entry: DataSet, home: Folder = None) -> tuple[str, ...]:
    """What to know of a data set, and of those of its files here that are known copies instead of the original."""
    places = [(file, find(file, home)) for file in entry.files if file.known_copies]
    notes = (file.known_copies.get(sha256_of(place)) for file, place in places if place is not None)
    return (*entry.quirks, *(note for note in notes if note is not None))


def how_to_get(entry: DataSet, missing: list[str], home: Folder) -> str:
    """One line: the command, or which file to put where by hand."""
    wanted = " and ".join(str(data_home(home) / name) for name in missing)
    if entry.origin == "uci":
        return (
            f"run 'gar data fetch {entry.name}', or download {UCI_URL}/{entry.archive} by hand and put "
            f"{' and '.join(Path(name).name for name in missing)} from it at {wanted}"
        )
    return f"it cannot be downloaded for you ({entry.licence}); see {entry.homepage} and put the file at {wanted}"


def sha256_of(file: Path) -> str:
    """Checksum of a file of any size."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
