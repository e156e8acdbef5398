"""Parse delimited text; its encoding, delimiter and decimal mark are detected."""

import csv
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO, StringIO

import numpy as np
import pandas as pd

from gar.app.tables.columns import is_numeric, to_floats, to_text, unparsed_text
from gar.encoding.cells import is_missing_mark
from gar.encoding.inference import NUMERIC_SHARE, ColumnNotes
from gar.errors import InputError

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_DELIMITER_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "space": " "}
_SAMPLE_LINES = 100
_SAMPLE_BYTES = 1 << 22
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0e-\x1f]")
_EXCEL_COMMENT = "sep="
_COMMENTS = ("#", "%", "//", _EXCEL_COMMENT)
_HINT = "name its delimiter (--delimiter, in Python delimiter=)"

_DECIMAL_COMMA = re.compile(r"(?:^|[;\t])\s*-?\d+,\d+\s*(?=$|[;\t])", re.MULTILINE)
_DECIMAL_POINT = re.compile(r"(?:^|[;\t])\s*-?\d+\.\d+\s*(?=$|[;\t])", re.MULTILINE)
_NUMBER_WITH_COMMA = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?(?:[eE][+-]?\d+)?")
_MAYBE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_COMMAS_READ = "numbers are read with decimal commas, 1,5 as 1.5"
_THOUSANDS_READ = "points are read as thousands separators, 1.234 as 1234"


def parse_delimited(
    content: bytes, *, delimiter: str | None, encoding: str | None, text: Sequence[str], name: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table of a text file with a header, and notes. Cells become numbers or stay text, which is never executed."""
    encoding = detect_encoding(content, encoding, name)
    sample = _sample(content, encoding)
    if not sample.strip():
        raise InputError(f"{name} is empty; expected a table with a header")
    delimiter = _detect_delimiter(sample, name) if delimiter is None else _given_delimiter(sample, delimiter, name)
    parse = partial(_parse, content, encoding, delimiter, text, name)
    if delimiter in ";\t" and _DECIMAL_COMMA.search(sample) and not _DECIMAL_POINT.search(sample):
        return _with_decimal_commas(parse(","), None, text)
    frame = parse(".")
    return _with_decimal_commas(parse(","), frame, text) if _has_decimal_commas(frame, text) else (frame, ())


def detect_encoding(content: bytes, given: str | None, name: str) -> str:
    """Return the given encoding after a check, or detect one: UTF-16 with a byte order mark, UTF-8, or cp1252."""
    if given is not None:
        _check_encoding(content, given, name)
        return given
    marked = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if marked else ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            if not _CONTROL_CHARACTER.search(content.decode(encoding), 0, 1 << 16):
                return encoding
    raise InputError(f"{name} is not text; expected a table: check the ending of its name, or name its encoding (--encoding)")


def _check_encoding(content: bytes, encoding: str, name: str) -> None:
    try:
        content.decode(encoding)
    except LookupError:
        raise InputError(f"encoding={encoding!r} is not known; use one such as utf-8, cp1252, shift_jis or gb18030") from None
    except UnicodeError as error:
        raise InputError(f"{name} is not text in the encoding {encoding!r} ({error}); name another, or leave it out") from None


def _sample(content: bytes, encoding: str) -> str:
    """Return the first lines, each of them complete; blank lines become empty."""
    lines = _with_newlines(content[:_SAMPLE_BYTES].decode(encoding, errors="ignore")).splitlines(keepends=True)
    if len(lines) > 1 and len(content) > _SAMPLE_BYTES:
        lines.pop()
    return "".join(line if line.strip() else "\n" for line in lines[:_SAMPLE_LINES])


def _with_newlines(text: str) -> str:
    """Return the text with Unix line ends, also where it has those of old Macs."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _detect_delimiter(sample: str, name: str) -> str:
    """Return the delimiter with most header fields, of those that give nearly all lines as many; a space is the last choice."""
    header, *lines = sample.strip("\n").splitlines()
    best = max(_DELIMITERS, key=lambda delimiter: (_width(sample, delimiter) > 1, delimiter != " ", _width(sample, delimiter)))
    if _width(sample, best) > 1 and not header.startswith(_EXCEL_COMMENT):
        return best
    cells = pd.Series(lines, dtype=object)
    if lines and all(map(is_missing_mark, unparsed_text(cells, to_floats(cells)))):
        return ","  # a single column of numbers
    _check_header(header, name)
    line = _first_irregular_line(sample, max(_DELIMITERS, key=header.count))
    raise InputError(
        f"{name}: none of comma, semicolon, tab, bar and space cuts its lines into as many fields as its header {header[:60]!r}"
        f"{line and f' ({line})'}; {_HINT}, or correct the lines"
    )


def _given_delimiter(sample: str, given: str, name: str) -> str:
    delimiter = _DELIMITER_NAMES.get(given, given)
    if len(delimiter) != 1:
        raise InputError(f"delimiter={given!r}; expected one character, or one of {', '.join(_DELIMITER_NAMES)}")
    header = sample.strip("\n").splitlines()[0]
    if delimiter not in header:
        _check_header(header, name)
        other = max(_DELIMITERS, key=lambda other: _width(sample, other))
        hint = f"it looks separated by {_DELIMITERS[other]}" if _width(sample, other) > 1 else "it has one column"
        raise InputError(f"the header of {name} holds no {_word(delimiter)}; {hint}")
    return delimiter


def _check_header(header: str, name: str) -> None:
    """Raise an error if a comment stands above the table, where column names are expected."""
    if header.startswith(_COMMENTS):
        raise InputError(f"{name} begins with the comment {header[:60]!r}; expected column names: remove this line")


def _width(sample: str, delimiter: str) -> int:
    """Return the number of fields in the header, or 1 if lines disagree with it: then the character is part of the text."""
    try:
        counts = [fields for _, fields in _field_counts(sample, delimiter)]
    except csv.Error:
        return 1
    return counts[0] if counts and Counter(counts)[counts[0]] >= 0.9 * len(counts) else 1


def _field_counts(text: str, delimiter: str) -> Iterator[tuple[int, int]]:
    """Yield the line number and the number of fields of each line that is not empty."""
    reader = csv.reader(StringIO(text), delimiter=delimiter, skipinitialspace=delimiter == " ")
    return ((reader.line_num, len(row)) for row in reader if row)


def _first_irregular_line(text: str, delimiter: str) -> str:
    """Describe the first line whose number of fields differs from the header's; return an empty string if there is none."""
    with suppress(csv.Error):
        (_, expected), *rows = _field_counts(text, delimiter)
        for line, fields in rows:
            if fields != expected:
                return f"line {line} has {fields} fields separated by {_word(delimiter)}, the header has {expected}"
    return ""


def _word(delimiter: str) -> str:
    return _DELIMITERS.get(delimiter, repr(delimiter))


def _parse(content: bytes, encoding: str, delimiter: str, text: Sequence[str], name: str, decimal: str) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # lines longer than the header would lose their end
            return pd.read_csv(
                BytesIO(content),
                encoding=encoding,
                sep=delimiter,
                decimal=decimal,
                skipinitialspace=True,
                index_col=False,
                low_memory=False,
                dtype=dict.fromkeys(text, str),
            )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, pd.errors.ParserWarning) as error:
        reason = " ".join(str(error).split())
        if isinstance(error, pd.errors.ParserWarning):
            reason = _first_irregular_line(_with_newlines(content.decode(encoding)), delimiter) or reason
        raise InputError(
            f"{name} is not a table separated by {_word(delimiter)} ({reason}); {_HINT}, or correct the line"
        ) from error


def _has_decimal_commas(frame: pd.DataFrame, text: Sequence[str]) -> bool:
    """Return True if a text column, other than those that stay text, certainly holds them: 1,234 alone may be a thousand."""
    columns = (_numbers_with_commas(frame[name]) for name in _text_columns(frame, text))
    return any("," in word and not _MAYBE_THOUSANDS.fullmatch(word) for words in columns for word in words)


def _with_decimal_commas(
    commas: pd.DataFrame, points: pd.DataFrame | None, text: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a table that was parsed with decimal commas, its thousands separators resolved, and notes.

    Args:
        commas: the table.
        points: the same table parsed with decimal points, which some of its columns may have; None if none has.
        text: columns that stay text.
    """
    notes = ColumnNotes()
    for name in _text_columns(commas, text):
        words = _numbers_with_commas(commas[name])
        if len(words):
            commas[name] = _with_points(commas[name], words)
            if words.str.contains(".", regex=False).any():
                notes.add(_THOUSANDS_READ, repr(name))
        elif points is not None:
            commas[name] = points[name]
    return commas, (_COMMAS_READ, *notes.lines())


def _text_columns(frame: pd.DataFrame, text: Sequence[str]) -> list[str]:
    return [name for name in frame.columns if name not in text and not is_numeric(frame[name])]


def _numbers_with_commas(series: pd.Series) -> pd.Series:
    """Return the cells that are numbers with decimal commas.

    They are none unless they are nearly all cells, one of them has a comma or point, and no other cell has a decimal point.
    """
    words = to_text(series).dropna()
    words = words[[not is_missing_mark(word) for word in words]]
    fits = np.array([_NUMBER_WITH_COMMA.fullmatch(word) is not None for word in words], dtype=bool)
    numbers, others = words[fits], words[~fits]
    if len(numbers) < NUMERIC_SHARE * len(words) or np.isfinite(to_floats(others)).any():
        return numbers[:0]
    return numbers if any("," in word or "." in word for word in numbers) else numbers[:0]


def _with_points(series: pd.Series, words: pd.Series) -> pd.Series:
    """Return numbers; beside text that is not a number, return text with decimal points."""
    cells = to_text(series)
    cells[words.index] = words.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    values = pd.to_numeric(cells, errors="coerce")
    return values if values.notna().equals(cells.notna()) else cells
