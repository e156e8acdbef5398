"""Numbers with a decimal comma, and with points between thousands: 1.234,5 is 1234.5."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gar.app.tables.columns import holds_numbers, is_missing_mark, numbers, text
from gar.app.tables.planning import Findings

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?(?:[eE][+-]?\d+)?")
_MAY_BE_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_MOST = 0.9
_DECIMAL = "numbers are read with decimal commas, 1,5 as 1.5"
_THOUSANDS = "points between thousands are left out, 1.234 read as 1234"


def has_decimal_commas(frame: "pd.DataFrame", kept: Sequence[str]) -> bool:
    """Whether a column of text, other than those kept, holds such numbers beyond doubt: 1,234 alone may be a thousand."""
    columns = (_words(frame[name]) for name in _text_columns(frame, kept))
    return any(any(map(_is_beyond_doubt, words)) and _are_numbers(words) for words in columns)


def with_decimal_commas(
    commas: "pd.DataFrame", points: "pd.DataFrame | None", kept: Sequence[str]
) -> tuple["pd.DataFrame", tuple[str, ...]]:
    """A table that was read with decimal commas, with what this left as text mended, and notes.

    Args:
        commas: the table.
        points: the same read with decimal points, which some of the columns may have; None if none has.
        kept: columns that stay text.
    """
    findings = Findings()
    for name in _text_columns(commas, kept):
        words = _words(commas[name])
        if _are_numbers(words):
            commas[name] = _with_points(commas[name], words)
            if words.str.contains(".", regex=False).any():
                findings.add(_THOUSANDS, repr(name))
        elif points is not None:
            commas[name] = points[name]
    return commas, (_DECIMAL, *findings.notes())


def _text_columns(frame: "pd.DataFrame", kept: Sequence[str]) -> list[str]:
    return [name for name in frame.columns if name not in kept and not holds_numbers(frame[name])]


def _words(series: "pd.Series") -> "pd.Series":
    """What is there and says something."""
    words = text(series).dropna()
    return words[~is_missing_mark(words)]


def _is_beyond_doubt(word: str) -> bool:
    return "," in word and _NUMBER.fullmatch(word) is not None and _MAY_BE_THOUSANDS.fullmatch(word) is None


def _are_numbers(words: "pd.Series") -> bool:
    """Nearly all of them with decimal commas, at least one with a comma or point, and none with a decimal point, as 1.5."""
    fits = _fits(words)
    if not fits.any() or fits.mean() < _MOST or np.isfinite(numbers(words[~fits])).any():
        return False
    return any("," in word or "." in word for word in words[fits])


def _fits(words: "pd.Series") -> np.ndarray:
    return np.array([_NUMBER.fullmatch(word) is not None for word in words], dtype=bool)


def _with_points(series: "pd.Series", words: "pd.Series") -> "pd.Series":
    """As numbers; beside text that is none, as text with decimal points."""
    import pandas as pd

    replaced = words[_fits(words)].str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    cells = text(series)
    cells[replaced.index] = replaced
    values = pd.to_numeric(cells, errors="coerce")
    return values if values.notna().equals(cells.notna()) else cells
