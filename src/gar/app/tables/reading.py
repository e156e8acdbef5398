"""Any table from any file: text with delimiters, Parquet, ARFF, Excel, numpy's NPZ. Nothing is ever unpickled.

Files come from anywhere, so what they claim is checked before it is believed: a small file that would unpack to more than
``limit`` bytes is refused.
"""

import gzip
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gar.app.tables.delimited import TextForm, decoded, parse_delimited
from gar.app.tables.unpacking import MANY, check_zip, unpacked
from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_TEXT = (".csv", ".tsv", ".txt", ".data", ".dat")


class TableFile(NamedTuple):
    """The table of a file, and what a reader of results should know of how it was read."""

    frame: "pd.DataFrame"
    notes: tuple[str, ...]


def read_table(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    text: Sequence[str] = (),
    limit: int = MANY,
) -> "pd.DataFrame":
    """A table from a file, its columns under unique names.

    Args:
        path: ``.csv``, ``.tsv``, ``.txt``, ``.data`` or ``.dat`` (delimited text), ``.arff``, each also with ``.gz``; ``.parquet``,
            ``.xlsx``, ``.xls`` (first sheet), ``.npz`` (one- and two-dimensional arrays of equal length).
        delimiter: of text, one character, or its name; None finds out whether it is a comma, semicolon, tab, bar or space.
        encoding: of text; None finds out whether it is UTF-8, UTF-16 or the old Western one (cp1252).
        text: columns of delimited text whose cells stay text, such as 01; other formats know the types of theirs.
        limit: of bytes that a compressed file may unpack to.

    Numbers of delimited text may have decimal commas, and points between thousands beside them.

    Raises:
        InputError: the file is missing, empty, damaged, or no table; the message is one line.
    """
    return read_file(path, TextForm(delimiter=delimiter, encoding=encoding, text=tuple(text)), limit=limit).frame


def read_file(path: str | os.PathLike[str], form: TextForm, *, limit: int = MANY) -> TableFile:
    """The same with notes."""
    file = Path(path)
    _check_file(file)
    suffix = file.with_suffix("").suffix.lower() if file.suffix.lower() == ".gz" else file.suffix.lower()
    _check_form(file, suffix, form)
    reader = _reader(file, suffix, form)
    with _one_line_errors(file):
        frame, notes = reader(file, limit)
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise InputError(f"{file} has no rows below its header; expected at least one")
    return TableFile(frame.set_axis(_unique(frame.columns), axis=1), notes)


def _check_form(file: Path, suffix: str, form: TextForm) -> None:
    """What is said of text makes no sense of other files."""
    if form.delimiter is not None and suffix not in _TEXT:
        raise InputError(f"{file} is not delimited text, so delimiter={form.delimiter!r} has no meaning; leave it out")
    if form.encoding is not None and suffix not in (*_TEXT, ".arff"):
        raise InputError(f"{file} is not text, so encoding={form.encoding!r} has no meaning; leave it out")


def _check_file(file: Path) -> None:
    if file.is_dir():
        raise InputError(f"{file} is a folder; expected a file with a table")
    if not file.is_file():
        raise InputError(f"{file} is not there; check the name")
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty; expected a table with a header")


def _reader(file: Path, suffix: str, form: TextForm) -> Callable[[Path, int], tuple["pd.DataFrame", tuple[str, ...]]]:
    packed = file.suffix.lower() == ".gz"
    if suffix in _TEXT:
        return lambda path, limit: parse_delimited(_bytes(path, limit), form, name=str(path))
    if suffix == ".arff":
        return lambda path, limit: (_arff(path, form.encoding, limit), ())
    if not packed and suffix in _BINARY:
        return lambda path, limit: (_BINARY[suffix](path, limit), ())
    known = ", ".join([*_TEXT, ".arff", *_BINARY])
    raise InputError(f"{file} has the ending {''.join(file.suffixes[-2:]) or 'of no format'!r}; expected one of {known}")


@contextmanager
def _one_line_errors(file: Path) -> Iterator[None]:
    """Whatever a parser says about a file it cannot read, the reader gets one line that names the file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # parsers of six formats raise whatever they like at damaged files
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{file} cannot be read as {file.suffix or 'a table'} ({reason}); is it damaged, or of another format?"
        ) from error


def _bytes(file: Path, limit: int) -> bytes:
    if file.suffix.lower() != ".gz":
        return file.read_bytes()
    with gzip.open(file) as stream:
        return unpacked(stream, limit, name=str(file))


def _arff(file: Path, encoding: str | None, limit: int) -> "pd.DataFrame":
    import pandas as pd

    content = _optional("arff", package="liac-arff").loads(decoded(_bytes(file, limit), encoding, str(file)))
    return pd.DataFrame(content["data"], columns=[name for name, _ in content["attributes"]])


def _parquet(file: Path, limit: int) -> "pd.DataFrame":
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
        table = pyarrow.Table.from_batches(batches, source.schema_arrow)
    frame: pd.DataFrame = table.to_pandas()
    return frame.reset_index(drop=all(name is None for name in frame.index.names))


def _xlsx(file: Path, limit: int) -> "pd.DataFrame":
    check_zip(file, limit)
    openpyxl = _optional("openpyxl")
    with file.open("rb") as stream:
        book = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # what a file claims of its size
            rows = [row for row in map(_trimmed, sheet.iter_rows(values_only=True)) if row]
        finally:
            book.close()
    return _from_rows(rows, file, limit)


def _xls(file: Path, limit: int) -> "pd.DataFrame":
    xlrd = _optional("xlrd")
    with open(os.devnull, "w") as silent, xlrd.open_workbook(file, ragged_rows=True, logfile=silent) as book:
        sheet = book.sheet_by_index(0)
        rows = [_trimmed([_xls_value(xlrd, cell, book.datemode) for cell in sheet.row(place)]) for place in range(sheet.nrows)]
    return _from_rows([row for row in rows if row], file, limit)


def _xls_value(xlrd: Any, cell: Any, datemode: int) -> object:
    if cell.ctype in (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK, xlrd.XL_CELL_ERROR) or cell.value == "":
        return None
    if cell.ctype == xlrd.XL_CELL_DATE:
        return xlrd.xldate_as_datetime(cell.value, datemode)
    return bool(cell.value) if cell.ctype == xlrd.XL_CELL_BOOLEAN else cell.value


def _trimmed(row: Any) -> list[object]:
    """Without the empty cells at its end."""
    cells = list(row)
    while cells and cells[-1] is None:
        cells.pop()
    return cells


def _from_rows(rows: list[list[object]], file: Path, limit: int) -> "pd.DataFrame":
    """Rows of a sheet, the first of which holds names; a column without any name or value is left out."""
    import pandas as pd

    if not rows:
        raise InputError(f"the first sheet of {file} is empty; expected a table with a header")
    width = max(map(len, rows))
    if width * len(rows) > limit // 8:
        raise InputError(
            f"the first sheet of {file} has {len(rows)} rows and {width} columns, more than limit={limit}; save it as CSV"
        )
    names, *body = [row + [None] * (width - len(row)) for row in rows]
    frame = pd.DataFrame(body, columns=range(width)).infer_objects()
    kept = [place for place in range(width) if names[place] is not None or frame[place].notna().any()]
    return frame[kept].set_axis([f"column {place + 1}" if names[place] is None else names[place] for place in kept], axis=1)


def _npz(file: Path, limit: int) -> "pd.DataFrame":
    import pandas as pd

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
        return {f"{name}{place}": array[:, place] for place in range(array.shape[1])}
    raise InputError(f"{file}: array {name!r} has shape {array.shape}; expected (rows,) or (rows, columns)")


def _optional(module: str, *, package: str = "") -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"reading this file needs {package or module.split('.')[0]}: pip install 'gar[data]'") from error


def _unique(names: Any) -> list[str]:
    """Names as text, a repeated one with a number: a, a.1, a.2."""
    taken: set[str] = set()
    result = []
    for name in map(str, names):
        unique, copy = name, 0
        while unique in taken:
            copy += 1
            unique = f"{name}.{copy}"
        taken.add(unique)
        result.append(unique)
    return result


_BINARY: dict[str, Callable[[Path, int], "pd.DataFrame"]] = {
    ".parquet": _parquet,
    ".xlsx": _xlsx,
    ".xls": _xls,
    ".npz": _npz,
}
