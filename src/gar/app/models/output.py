"""The folder of a comparison, in which report and model are replaced together.

Everything is written beside its place first. One rename then says that it is complete, and only after that the files are moved. A
process that is killed before the rename has changed nothing; what one killed later had left to move, the next one moves.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from gar.app.models.folder import remove_model
from gar.errors import InputError
from gar.files import is_special, write_whole

MODEL, FIGURES, PAGE = "model", "figures", "report.html"
_LOCK, _UNFINISHED, _COMPLETE = ".gar-lock", ".gar-unfinished", ".gar-complete"


@contextmanager
def replacing_output(out: Path) -> Iterator[Path]:
    """Yield an empty folder; at the end its content replaces that of ``out``, after an error nothing does.

    Others that write to ``out`` wait. A model in ``out`` is removed if the new content has none.
    """
    out.mkdir(parents=True, exist_ok=True)
    unfinished = out / _UNFINISHED
    with FileLock(out / _LOCK):
        _move(out)
        _clear(unfinished)
        unfinished.mkdir()
        try:
            yield unfinished
            _check_places(unfinished, out)
            unfinished.rename(out / _COMPLETE)
        finally:
            _clear(unfinished)
        _move(out)


def finish_output(out: Path) -> None:
    """Move what a killed process has left to move."""
    if (out / _COMPLETE).is_dir():
        with FileLock(out / _LOCK):
            _move(out)


def _check_places(source: Path, out: Path) -> None:
    """Raise an error if a file stands where a folder is needed, or the other way round."""
    for path in source.rglob("*"):
        place = out / path.relative_to(source)
        if place.exists() and place.is_dir() != path.is_dir():
            kind, other = ("folder", "file") if place.is_dir() else ("file", "folder")
            raise InputError(f"{place} is a {kind}, where a {other} is to be written; move it away, or name another folder")


def _move(out: Path) -> None:
    """Move complete files into place. Their folders stay until all is done: without that of a model there is no new model."""
    complete = out / _COMPLETE
    if not complete.is_dir():
        return
    if not (complete / MODEL).is_dir():
        remove_model(out / MODEL)
    for path in sorted(complete.rglob("*")):
        place = out / path.relative_to(complete)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        elif place.is_symlink() or is_special(place) or path.stat().st_dev != place.parent.stat().st_dev:
            write_whole(place, path.read_bytes())
        else:
            path.replace(place)
    _remove_older_figures(out)
    complete.rename(out / _UNFINISHED)  # a part of it must never pass for the whole
    _clear(out / _UNFINISHED)


def _remove_older_figures(out: Path) -> None:
    """Remove figures to which the page has no link: they are of an earlier report. Files of other names are left alone."""
    page = (out / PAGE).read_text(encoding="utf-8") if (out / PAGE).is_file() else ""
    for path in (out / FIGURES).glob("[0-9]*-*.[ps][nv]g"):
        if path.name not in page:
            path.unlink()


def _clear(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
