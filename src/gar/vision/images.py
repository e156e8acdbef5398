"""Tables of images: the file of each, its target, and the split it belongs to."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gar.errors import InputError
from gar.vision.torchvision_import import MISSING

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

SPLITS = ("train", "val", "test")
_MOST_SHOWN = 10
_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class ImageTable:
    """Images by path below ``root``, their targets, and their splits (``train``, ``val``, ``test``)."""

    root: Path
    paths: tuple[str, ...]
    targets: np.ndarray
    splits: np.ndarray

    def part(self, split: str) -> tuple[list[Path], np.ndarray]:
        """Return the files and targets of one split."""
        rows = np.flatnonzero(self.splits == split)
        return [self.root / self.paths[row] for row in rows], self.targets[rows]

    def fingerprint(self) -> str:
        """Return a hash that is equal for equal tables, wherever their images are."""
        digest = hashlib.sha256(self.targets.tobytes())
        for words in zip(self.paths, self.splits, strict=True):
            digest.update("\0".join(words).encode() + b"\0")
        return digest.hexdigest()


def read_images(
    table: "str | os.PathLike[str] | pd.DataFrame",
    *,
    target: str,
    path: str = "path",
    split: str = "split",
    root: str | os.PathLike[str] | None = None,
    name: str = "table",
) -> ImageTable:
    """Return a table of images from a CSV file or a DataFrame. The images are not opened yet: see :func:`check_images`.

    Args:
        table: path of a CSV file, or a DataFrame, with a row for each image.
        target: the column of values to predict.
        path: the column of paths.
        split: the column that says ``train``, ``val`` or ``test``; there must be some of each.
        root: the folder that paths start from; None is the folder of the CSV file, or the current one for a DataFrame.
        name: what error messages call a DataFrame; a CSV file is called by its path.

    Raises:
        InputError: a column is missing, or a cell is not what it should be: the message names its value and row.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError(MISSING) from error
    if isinstance(table, str | os.PathLike):
        table, name, root = _read_csv(Path(table)), os.fspath(table), root or Path(table).parent
    if missing := [column for column in (target, path, split) if column not in table.columns]:
        raise InputError(
            f"{name} has no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, table.columns[:20]))}: "
            "name the columns of targets, paths and splits"
        )
    targets = np.asarray(pd.to_numeric(table[target], errors="coerce").to_numpy(np.float64))
    splits = table[split].astype(str).to_numpy(str)
    _check_cells(table[target], np.isfinite(targets), "a number", name)
    _check_cells(table[split], np.isin(splits, SPLITS), "a split; expected train, val or test", name)
    _check_cells(table[path], table[path].notna().to_numpy(), "a path", name)
    for part in SPLITS:
        if part not in splits:
            raise InputError(f"{name} has no row whose {split!r} is {part!r}; training needs train, val and test")
    folder = Path(root or ".")
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; name the one that the paths in {name} start from")
    return ImageTable(root=folder, paths=tuple(table[path].astype(str)), targets=targets, splits=splits)


def _read_csv(file: Path) -> "pd.DataFrame":
    import pandas as pd

    if not file.is_file():
        raise InputError(f"{file} is not there; name a CSV file with a row for each image")
    try:
        return pd.read_csv(file)
    except ValueError as error:  # pandas' own errors and those of decoding are of this kind
        reason = str(error).split("\n")[0][:120]
        raise InputError(f"{file} cannot be read as CSV ({reason}); read other formats yourself and pass a DataFrame") from error


def _check_cells(cells: "pd.Series", is_good: np.ndarray, expected: str, table: str) -> None:
    """Raise an error that names the first bad cell and counts the others; rows are counted from 1, below the header."""
    bad = np.flatnonzero(~is_good)
    if len(bad):
        shown = "empty" if cells.isna().iloc[bad[0]] else repr(str(cells.iloc[bad[0]]))
        more = f" (and {len(bad) - 1} rows more)" if len(bad) > 1 else ""
        raise InputError(f"{table}, row {bad[0] + 1}: {cells.name} is {shown}, not {expected}{more}; correct the table")


def check_images(table: ImageTable) -> None:
    """Open and decode every image, so that all bad ones are reported before training.

    Raises:
        InputError: files are missing, truncated or no images; it counts them and names the first ten.
    """
    files = [table.root / path for path in table.paths]
    with ThreadPoolExecutor(_THREADS) as pool:  # decoders release the interpreter lock
        faults = list(pool.map(_fault, files))
    bad = [f"{file} ({fault})" for file, fault in zip(files, faults, strict=True) if fault]
    if bad:
        more = f" and {len(bad) - _MOST_SHOWN} more" if len(bad) > _MOST_SHOWN else ""
        raise InputError(
            f"{len(bad)} of {len(files)} images cannot be used: {', '.join(bad[:_MOST_SHOWN])}{more}. "
            "Repair them, or remove their rows from the table"
        )


def _fault(file: Path) -> str:
    """Return what is wrong with an image, or an empty text if it can be decoded to its end."""
    if not file.is_file():
        return "not there"
    try:
        read_image(file)
    except Exception as error:  # decoders of dozens of formats raise whatever they like at damaged files
        return "not an image" if "cannot identify" in str(error) else str(error) or type(error).__name__
    return ""


def read_image(file: Path) -> "Image.Image":
    """Return an image in RGB; greyscale is converted, and transparency is dropped."""
    from PIL import Image

    with Image.open(file) as image:
        return image.convert("RGB")
