"""Delimited text: which encoding, which delimiter, which decimal mark."""

import csv
import re
import warnings
from collections import Counter
from contextlib import suppress
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_SAMPLE_LINES = 100
_SAMPLE_BYTES = 1 << 22
_DECIMAL_COMMA = re.compile(r"(?:^|[;\t])\s*-?\d+,\d+\s*(?=$|[;\t])", re.MULTILINE)
_DECIMAL_POINT = re.compile(r"(?:^|[;\t])\s*-?\d+\.\d+\s*(?=$|[;\t])", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")


def parse_delimited(content: bytes, delimiter: str | None, *, name: str) -> "pd.DataFrame":
    """A table from the bytes of a text file with a header. Cells stay what they are: numbers, or text that is never run."""
    import pandas as pd

    encoding = _encoding(content, name)
    sample = _sample(content, encoding)
    if not sample.strip():
        raise InputError(f"{name} is empty; expected a table with a header")
    mark = _found(sample, name) if delimiter is None else _given(sample, delimiter, name)
    comma = mark in ";\t" and bool(_DECIMAL_COMMA.search(sample)) and not _DECIMAL_POINT.search(sample)
    style = {"sep": mark, "decimal": "," if comma else ".", "skipinitialspace": True, "index_col": False, "low_memory": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # lines longer than the header would lose their end
            return pd.read_csv(BytesIO(content), encoding=encoding, **style)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, pd.errors.ParserWarning) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{name} is no table separated by {_word(mark)} ({reason}); name its delimiter, or mend the line"
        ) from error


def decoded(content: bytes, name: str) -> str:
    """The text of a file, whatever its encoding."""
    return content.decode(_encoding(content, name))


def _encoding(content: bytes, name: str) -> str:
    """UTF-8, UTF-16 where the file says so, or else the old Western encoding."""
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if marked else ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            if not _CONTROL.search(content.decode(encoding), 0, 1 << 16):
                return encoding
    raise InputError(f"{name} is not text; expected a table: check the ending of its name")


def _sample(content: bytes, encoding: str) -> str:
    """The first lines, each whole; blank ones say nothing."""
    lines = content[:_SAMPLE_BYTES].decode(encoding, errors="ignore").splitlines(keepends=True)
    if len(lines) > 1 and len(content) > _SAMPLE_BYTES:
        lines.pop()
    return "".join(line for line in lines[:_SAMPLE_LINES] if line.strip())


def _found(sample: str, name: str) -> str:
    """The delimiter that cuts the header into most fields, of those that cut nearly all lines into as many; a space comes last."""
    best = max(_NAMES, key=lambda mark: (_width(sample, mark) > 1, mark != " ", _width(sample, mark)))
    if _width(sample, best) > 1:
        return best
    header, *lines = sample.splitlines()
    if lines and all(_is_number(line) for line in lines):
        return ","  # a single column of numbers
    raise InputError(
        f"{name}: none of comma, semicolon, tab, bar and space cuts its lines into as many fields as its header {header[:60]!r}; "
        "name the delimiter, or mend the header"
    )


def _given(sample: str, delimiter: str, name: str) -> str:
    if len(delimiter) != 1:
        raise InputError(f"delimiter={delimiter!r}; expected one character")
    if delimiter not in sample.splitlines()[0]:
        other = max(_NAMES, key=lambda mark: _width(sample, mark))
        hint = f"it looks separated by {_word(other)}" if _width(sample, other) > 1 else "it has one column"
        raise InputError(f"the header of {name} holds no {_word(delimiter)}; {hint}")
    return delimiter


def _width(sample: str, mark: str) -> int:
    """Fields in the header, or 1 if lines disagree with it: then the character is part of the text."""
    try:
        counts = [len(row) for row in csv.reader(StringIO(sample), delimiter=mark, skipinitialspace=mark == " ") if row]
    except csv.Error:
        return 1
    agreeing = Counter(counts)[counts[0]] if counts else 0
    return counts[0] if counts and agreeing >= 0.9 * len(counts) else 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip() in ("", "NA", "nan", "NaN")
    return True


def _word(mark: str) -> str:
    return _NAMES.get(mark, repr(mark))
