"""Read a table from a file: delimited text, Parquet, ARFF, Excel or numpy's NPZ. Nothing is ever unpickled.

Files come from anywhere, so their claims are checked: a small file that would unpack to more than ``limit`` bytes is refused.
"""

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gar.app.tables.delimited import detect_encoding, parse_delimited
from gar.app.tables.unpacking import DEFAULT_LIMIT, check_zip, read_gzip
from gar.errors import InputError, how_to_install

_DELIMITED = (".csv", ".tsv", ".txt", ".data", ".dat")
_TEXT = (*_DELIMITED, ".arff")


def read_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    text: Sequence[str] = (),
    limit: int = DEFAULT_LIMIT,
) -> pd.DataFrame:
    """Read a table from a file; its columns get unique names.

    Numbers in delimited text may have decimal commas, and points as thousands separators beside them.

    Args:
        path: ``.csv``, ``.tsv``, ``.txt``, ``.data`` or ``.dat`` (delimited text), ``.arff``, each also with ``.gz``; ``.parquet``,
            ``.xlsx``, ``.xls`` (first sheet), ``.npz`` (one- and two-dimensional arrays of equal length).
        delimiter: of text: one character, or its name; None detects comma, semicolon, tab, bar or space.
        encoding: of text; None detects UTF-8, UTF-16 or Western European (cp1252).
        text: columns of delimited text whose cells stay text, such as 01; other formats store the types of their columns.
        limit: number of bytes that a compressed file may unpack to.

    Raises:
        InputError: the file is missing, empty, damaged, or not a table; the message is one line.
    """
    return read_with_notes(path, delimiter=delimiter, encoding=encoding, text=text, limit=limit)[0]


def read_with_notes(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    text: Sequence[str] = (),
    limit: int = DEFAULT_LIMIT,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Like :func:`read_table`, and also return notes for the report."""
    file = Path(path)
    _check_file(file)
    suffix = _suffix(file)
    if delimiter is not None and suffix not in _DELIMITED:
        raise InputError(f"{file} is not delimited text, so delimiter={delimiter!r} has no meaning; leave it out")
    if encoding is not None and suffix not in _TEXT:
        raise InputError(f"{file} is not text, so encoding={encoding!r} has no meaning; leave it out")
    try:
        frame, notes = _read(file, suffix, delimiter, encoding, text, limit)
    except InputError:
        raise
    except Exception as error:  # the parsers of six formats raise errors of any type for damaged files
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        message = f"{file} cannot be read as {file.suffix or 'a table'} ({reason}); is it damaged, or of another format?"
        raise InputError(message) from error
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise InputError(f"{file} has no rows below its header; expected at least one")
    return frame.set_axis(_unique(frame.columns), axis=1), notes


def _check_file(file: Path) -> None:
    if file.is_dir():
        raise InputError(f"{file} is a folder; expected a file with a table")
    if not file.is_file():
        raise InputError(f"{file} is not there; check the name")
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty; expected a table with a header")


def _suffix(file: Path) -> str:
    """Return the ending that names the format, without that of gzip if the format is text."""
    inner = file.with_suffix("").suffix.lower()
    return inner if file.suffix.lower() == ".gz" and inner in _TEXT else file.suffix.lower()


def _read(
    file: Path, suffix: str, delimiter: str | None, encoding: str | None, text: Sequence[str], limit: int
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    if suffix in _BINARY:
        return _BINARY[suffix](file, limit), ()
    if suffix not in _TEXT:
        ending, known = "".join(file.suffixes[-2:]) or "of no format", ", ".join([*_TEXT, *_BINARY])
        raise InputError(f"{file} has the ending {ending!r}; expected one of {known}")
    content = read_gzip(file, limit) if file.suffix.lower() == ".gz" else file.read_bytes()
    if suffix == ".arff":
        return _parse_arff(content, encoding, str(file)), ()
    return parse_delimited(content, delimiter=delimiter, encoding=encoding, text=text, name=str(file))


def _unique(names: Any) -> list[str]:
    """Return the names as text, with numbers for repeated ones: a, a.1, a.2."""
    unique: dict[str, None] = {}
    for name in map(str, names):
        candidate, copies = name, 0
        while candidate in unique:
            copies += 1
            candidate = f"{name}.{copies}"
        unique[candidate] = None
    return list(unique)


def _parse_arff(content: bytes, encoding: str | None, name: str) -> pd.DataFrame:
    parsed = _optional("arff", package="liac-arff").loads(content.decode(detect_encoding(content, encoding, name)))
    return pd.DataFrame(parsed["data"], columns=[attribute for attribute, _ in parsed["attributes"]])


def _read_parquet(file: Path, limit: int) -> pd.DataFrame:
    pyarrow = _optional("pyarrow")
    parquet = _optional("pyarrow.parquet")
    batches, size = [], 0
    with parquet.ParquetFile(file) as source:
        claimed = source.metadata.num_rows * source.metadata.num_columns
        if claimed > limit:
            raise InputError(f"{file} claims {claimed} cells, more than limit={limit}; raise limit if you trust it")
        for batch in source.iter_batches(batch_size=1024):
            size += batch.nbytes
            if size > limit:
                raise InputError(f"{file} unpacks to more than limit={limit} bytes; raise limit if you trust it")
            batches.append(batch)
        frame: pd.DataFrame = pyarrow.Table.from_batches(batches, source.schema_arrow).to_pandas()
    return frame.reset_index(drop=all(name is None for name in frame.index.names))


def _read_xlsx(file: Path, limit: int) -> pd.DataFrame:
    check_zip(file, limit)
    openpyxl = _optional("openpyxl")
    with file.open("rb") as stream:
        book = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # the file's claim about its size is not trusted
            rows = [_trimmed(row) for row in sheet.iter_rows(values_only=True)]
        finally:
            book.close()
    return _sheet_frame(rows, file, limit)


def _read_xls(file: Path, limit: int) -> pd.DataFrame:
    xlrd = _optional("xlrd")
    with open(os.devnull, "w") as silent, xlrd.open_workbook(file, ragged_rows=True, logfile=silent) as book:
        sheet = book.sheet_by_index(0)
        rows = [_trimmed(_xls_value(xlrd, cell, book.datemode) for cell in sheet.row(index)) for index in range(sheet.nrows)]
    return _sheet_frame(rows, file, limit)


def _xls_value(xlrd: Any, cell: Any, datemode: int) -> object:
    if cell.ctype in (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK, xlrd.XL_CELL_ERROR) or cell.value == "":
        return None
    if cell.ctype == xlrd.XL_CELL_DATE:
        return xlrd.xldate_as_datetime(cell.value, datemode)
    return bool(cell.value) if cell.ctype == xlrd.XL_CELL_BOOLEAN else cell.value


def _trimmed(row: Any) -> list[object]:
    """Return the cells of a row without the empty ones at its end."""
    cells = list(row)
    while cells and cells[-1] is None:
        cells.pop()
    return cells


def _sheet_frame(rows: list[list[object]], file: Path, limit: int) -> pd.DataFrame:
    """Return the table of a sheet whose first row holds names; columns without any name or value are left out."""
    rows = [row for row in rows if row]
    if not rows:
        raise InputError(f"the first sheet of {file} is empty; expected a table with a header")
    width = max(map(len, rows))
    if width * len(rows) > limit // 8:
        raise InputError(
            f"the first sheet of {file} has {len(rows)} rows and {width} columns, more than limit={limit}; save it as CSV"
        )
    names, *body = [row + [None] * (width - len(row)) for row in rows]
    frame = pd.DataFrame(body, columns=range(width)).infer_objects()
    kept = [index for index in range(width) if names[index] is not None or frame[index].notna().any()]
    return frame[kept].set_axis([f"column {index + 1}" if names[index] is None else names[index] for index in kept], axis=1)


def _read_npz(file: Path, limit: int) -> pd.DataFrame:
    check_zip(file, limit)
    columns: dict[str, np.ndarray] = {}
    with np.load(file, allow_pickle=False) as arrays:
        for name in arrays.files:
            columns |= _array_columns(name, arrays[name], file)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            f"{file} holds arrays of different lengths {dict(list(lengths.items())[:6])}; expected one row per sample in all"
        )
    return pd.DataFrame(columns)


def _array_columns(name: str, array: np.ndarray, file: Path) -> dict[str, np.ndarray]:
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        return {name: array.reshape(-1)}
    if array.ndim == 2:
        return {f"{name}{index}": array[:, index] for index in range(array.shape[1])}
    raise InputError(f"{file}: array {name!r} has shape {array.shape}; expected (rows,) or (rows, columns)")


def _optional(module: str, *, package: str = "") -> Any:
    """Import a module of an optional package; the error says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"reading this file needs {package or module.split('.')[0]}; {how_to_install('data')}") from error


_BINARY: dict[str, Callable[[Path, int], pd.DataFrame]] = {
    ".parquet": _read_parquet,
    ".xlsx": _read_xlsx,
    ".xls": _read_xls,
    ".npz": _read_npz,
}
