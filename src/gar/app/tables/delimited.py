"""Delimited text: which encoding, which delimiter, which decimal mark."""

import csv
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

from gar.app.tables.decimals import has_decimal_commas, with_decimal_commas
from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_SPELT = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "space": " "}
_SAMPLE_LINES = 100
_SAMPLE_BYTES = 1 << 22
_DECIMAL_COMMA = re.compile(r"(?:^|[;\t])\s*-?\d+,\d+\s*(?=$|[;\t])", re.MULTILINE)
_DECIMAL_POINT = re.compile(r"(?:^|[;\t])\s*-?\d+\.\d+\s*(?=$|[;\t])", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_EXCELS_REMARK = "sep="
_REMARKS = ("#", "%", "//", _EXCELS_REMARK)
_HINT = "name its delimiter (--delimiter, in Python delimiter=)"


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """What is known of a text file beforehand; None is found out."""

    delimiter: str | None = None
    encoding: str | None = None
    text: tuple[str, ...] = ()
    """Columns whose cells stay text."""


def parse_delimited(content: bytes, form: TextForm, *, name: str) -> tuple["pd.DataFrame", tuple[str, ...]]:
    """A table from the bytes of a text file with a header, and what to say about it.

    Cells stay what they are: numbers, or text that is never run.
    """
    encoding = _encoding(content, form.encoding, name)
    sample = _sample(content, encoding)
    if not sample.strip():
        raise InputError(f"{name} is empty; expected a table with a header")
    mark = _found(sample, name) if form.delimiter is None else _given(sample, form.delimiter, name)

    def parse(decimal: str) -> "pd.DataFrame":
        return _parsed(content, encoding, mark, decimal, form, name)

    if mark in ";\t" and bool(_DECIMAL_COMMA.search(sample)) and not _DECIMAL_POINT.search(sample):
        return with_decimal_commas(parse(","), None, form.text)
    frame = parse(".")
    return with_decimal_commas(parse(","), frame, form.text) if has_decimal_commas(frame, form.text) else (frame, ())


def _parsed(content: bytes, encoding: str, mark: str, decimal: str, form: TextForm, name: str) -> "pd.DataFrame":
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # lines longer than the header would lose their end
            return pd.read_csv(
                BytesIO(content),
                encoding=encoding,
                sep=mark,
                decimal=decimal,
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
                dtype=dict.fromkeys(form.text, str),
            )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, pd.errors.ParserWarning) as error:
        reason = " ".join(str(error).split())
        if isinstance(error, pd.errors.ParserWarning):
            reason = _first_other_line(_with_newlines(content.decode(encoding)), mark) or reason
        raise InputError(f"{name} is no table separated by {_word(mark)} ({reason}); {_HINT}, or mend the line") from error


def decoded(content: bytes, encoding: str | None, name: str) -> str:
    """The text of a file; without an encoding, whatever it is."""
    return content.decode(_encoding(content, encoding, name))


def _encoding(content: bytes, given: str | None, name: str) -> str:
    """UTF-8, UTF-16 where the file says so, or else the old Western encoding."""
    if given is not None:
        return _given_encoding(content, given, name)
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if marked else ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            if not _CONTROL.search(content.decode(encoding), 0, 1 << 16):
                return encoding
    raise InputError(f"{name} is not text; expected a table: check the ending of its name, or name its encoding (--encoding)")


def _given_encoding(content: bytes, encoding: str, name: str) -> str:
    try:
        content.decode(encoding)
    except LookupError:
        raise InputError(f"encoding={encoding!r} is not known; use one such as utf-8, cp1252, shift_jis or gb18030") from None
    except UnicodeError as error:
        raise InputError(f"{name} is not text in the encoding {encoding!r} ({error}); name another, or leave it out") from None
    return encoding


def _sample(content: bytes, encoding: str) -> str:
    """The first lines, each whole; blank ones say nothing, and are empty."""
    lines = _with_newlines(content[:_SAMPLE_BYTES].decode(encoding, errors="ignore")).splitlines(keepends=True)
    if len(lines) > 1 and len(content) > _SAMPLE_BYTES:
        lines.pop()
    return "".join(line if line.strip() else "\n" for line in lines[:_SAMPLE_LINES])


def _with_newlines(text: str) -> str:
    """With the line ends of today, also where old Macs wrote it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _found(sample: str, name: str) -> str:
    """The delimiter that cuts the header into most fields, of those that cut nearly all lines into as many; a space comes last."""
    header, *lines = sample.strip("\n").splitlines()
    best = max(_NAMES, key=lambda mark: (_width(sample, mark) > 1, mark != " ", _width(sample, mark)))
    if _width(sample, best) > 1 and not header.startswith(_EXCELS_REMARK):
        return best
    if lines and all(_is_number(line) for line in lines):
        return ","  # a single column of numbers
    _check_header(header, name)
    line = _first_other_line(sample, max(_NAMES, key=header.count))
    raise InputError(
        f"{name}: none of comma, semicolon, tab, bar and space cuts its lines into as many fields as its header {header[:60]!r}"
        f"{line and f' ({line})'}; {_HINT}, or mend the lines"
    )


def _given(sample: str, delimiter: str, name: str) -> str:
    mark = _SPELT.get(delimiter, delimiter)
    if len(mark) != 1:
        raise InputError(f"delimiter={delimiter!r}; expected one character, or one of {', '.join(_SPELT)}")
    header = sample.strip("\n").splitlines()[0]
    if mark not in header:
        _check_header(header, name)
        other = max(_NAMES, key=lambda mark: _width(sample, mark))
        hint = f"it looks separated by {_word(other)}" if _width(sample, other) > 1 else "it has one column"
        raise InputError(f"the header of {name} holds no {_word(mark)}; {hint}")
    return mark


def _check_header(header: str, name: str) -> None:
    """Programs write remarks above a table, which are no names of columns."""
    if header.startswith(_REMARKS):
        raise InputError(f"{name} begins with the remark {header[:60]!r}; expected the names of columns: remove this line")


def _rows(text: str, mark: str) -> Iterator[tuple[int, int]]:
    """The number of each line that is not empty, and of its fields."""
    reader = csv.reader(StringIO(text), delimiter=mark, skipinitialspace=mark == " ")
    return ((reader.line_num, len(row)) for row in reader if row)


def _width(sample: str, mark: str) -> int:
    """Fields in the header, or 1 if lines disagree with it: then the character is part of the text."""
    try:
        counts = [fields for _, fields in _rows(sample, mark)]
    except csv.Error:
        return 1
    agreeing = Counter(counts)[counts[0]] if counts else 0
    return counts[0] if counts and agreeing >= 0.9 * len(counts) else 1


def _first_other_line(text: str, mark: str) -> str:
    """Which line has not as many fields as the header; nothing if all have."""
    with suppress(csv.Error):
        (_, expected), *rows = _rows(text, mark)
        for line, fields in rows:
            if fields != expected:
                return f"line {line} has {fields} fields separated by {_word(mark)}, the header has {expected}"
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip() in ("", "NA", "nan", "NaN")
    return True


def _word(mark: str) -> str:
    return _NAMES.get(mark, repr(mark))
