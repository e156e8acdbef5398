"""Tables of images: a file of each, the number to predict, and the split it belongs to."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

SPLITS = ("train", "val", "test")
_MOST_SHOWN = 10
_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class ImageTable:
    """Images by path below ``root``, the number that belongs to each, and their splits (``train``, ``val``, ``test``)."""

    root: Path
    paths: tuple[str, ...]
    numbers: np.ndarray
    splits: np.ndarray

    def part(self, split: str) -> tuple[list[Path], np.ndarray]:
        """Files and numbers of one split."""
        rows = np.flatnonzero(self.splits == split)
        return [self.root / self.paths[row] for row in rows], self.numbers[rows]

    def fingerprint(self) -> str:
        """Equal for equal tables, wherever their images are."""
        digest = hashlib.sha256(self.numbers.tobytes())
        for words in zip(self.paths, self.splits, strict=True):
            digest.update("\0".join(words).encode() + b"\0")
        return digest.hexdigest()


def read_images(
    table: str | os.PathLike[str],
    *,
    number: str = "age",
    path: str = "path",
    split: str = "split",
    root: str | os.PathLike[str] | None = None,
) -> ImageTable:
    """A table of images from a file. The images are not opened yet: see :func:`check_images`.

    Args:
        table: CSV, Parquet or another format of :func:`gar.app.tables.read_table`.
        number: the column of numbers to predict.
        path: the column of paths.
        split: the column that says ``train``, ``val`` or ``test``; there must be some of each.
        root: the folder that paths start from; None is the folder of the table.

    Raises:
        InputError: a column is missing, or a cell is not what it should be: the message names its value and row.
    """
    file = Path(table)
    from gar.app.tables import read_table

    frame = read_table(file)
    missing = [name for name in (number, path, split) if name not in frame.columns]
    if missing:
        raise InputError(
            f"{file} has no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, frame.columns[:20]))}: "
            "name the columns of numbers, paths and splits"
        )
    numbers = _numbers(frame[number], file)
    splits = frame[split].astype(str).to_numpy(str)
    _refuse(frame[split], np.isin(splits, SPLITS), "a split; expected train, val or test", file)
    _refuse(frame[path], frame[path].notna().to_numpy(), "a path", file)
    for name in SPLITS:
        if name not in splits:
            raise InputError(f"{file} has no row whose {split!r} is {name!r}; training needs train, val and test")
    folder = file.parent if root is None else Path(root)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name the one that the paths in {file} start from")
    return ImageTable(root=folder, paths=tuple(frame[path].astype(str)), numbers=numbers, splits=splits)


def check_images(table: ImageTable) -> None:
    """Open and decode every image, so that a bad one is told before training, with all others.

    Raises:
        InputError: files are missing, cut off or no images; it counts them and names the first ten.
    """
    files = [table.root / path for path in table.paths]
    with ThreadPoolExecutor(_THREADS) as pool:  # decoders leave other threads alone
        faults = list(pool.map(_fault, files))
    bad = [f"{file} ({fault})" for file, fault in zip(files, faults, strict=True) if fault]
    if bad:
        more = f" and {len(bad) - _MOST_SHOWN} more" if len(bad) > _MOST_SHOWN else ""
        raise InputError(
            f"{len(bad)} of {len(files)} images cannot be used: {', '.join(bad[:_MOST_SHOWN])}{more}. "
            "Put them right, or take their rows out of the table"
        )


def read_image(file: Path) -> "Image.Image":
    """An image in red, green and blue; grey ones are coloured, and transparency is left out."""
    from PIL import Image

    with Image.open(file) as image:
        return image.convert("RGB")


def _fault(file: Path) -> str:
    """What is wrong with an image; nothing if it can be decoded to its end."""
    if not file.is_file():
        return "not there"
    try:
        read_image(file)
    except Exception as error:  # decoders of dozens of formats raise whatever they like at damaged files
        return "not an image" if "cannot identify" in str(error) else str(error) or type(error).__name__
    return ""


def _numbers(cells: "pd.Series", file: Path) -> np.ndarray:
    import pandas as pd

    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
    _refuse(cells, np.isfinite(numbers), "a number", file)
    return np.asarray(numbers)


def _refuse(cells: "pd.Series", good: np.ndarray, expected: str, file: Path) -> None:
    """An error that names the first bad cell and how many there are; rows are counted from 1, below the header."""
    import pandas as pd

    bad = np.flatnonzero(~good)
    if len(bad):
        cell = cells.iloc[bad[0]]
        shown = "empty" if pd.isna(cell) else repr(str(cell))
        more = f" (and {len(bad) - 1} rows more)" if len(bad) > 1 else ""
        raise InputError(f"{file}, row {bad[0] + 1}: {cells.name} is {shown}, not {expected}{more}; mend the table")
