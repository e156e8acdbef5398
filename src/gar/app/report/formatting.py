"""Formatting of numbers and names for tables, figures and sentences."""

import math
from collections.abc import Iterable

NOTHING = "\N{EN DASH}"
"""Shown where there is no number."""
NO_BREAK = "\N{NO-BREAK SPACE}"


def printable(text: str, longest: int | None = None) -> str:
    """Return text that is safe to show anywhere: without control characters, and at most ``longest`` characters.

    Example:
        >>> printable("a\\x1b[31mb" + "c" * 90, 8)
        'a�[31mb…'
    """
    clean = "".join(letter if letter.isprintable() else "�" for letter in text.replace("\n", " ").replace("\t", " "))
    return clean if longest is None or len(clean) <= longest else f"{clean[: longest - 1]}…"


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals show about four digits of the largest value, so that a column of numbers lines up.

    Example:
        >>> decimals([4.6, 12.3]), decimals([0.93]), decimals([12345.0])
        (2, 3, 0)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=1.0)
    if largest == 0:
        return 3
    exponent = math.floor(math.log10(largest))
    return min(max(2 - exponent if exponent < 0 else 3 - exponent, 0), 8)


def number(value: float, digits: int) -> str:
    """Format a number with a fixed number of decimals.

    Example:
        >>> number(12345.6, 0), number(-0.0001, 3), number(float("nan"), 2), number(2.5e8, 0)
        ('12,346', '0.000', '–', '2.5e+08')
    """
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if abs(value) >= 1e7 or (value != 0 and abs(value) < 1e-7):
        return f"{value:.3g}"
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def short(value: float) -> str:
    """Format a number with three significant digits, for sentences and labels.

    Example:
        >>> short(0.92871), short(1234.5), short(10.0)
        ('0.929', '1,230', '10')
    """
    if not math.isfinite(value) or value == 0:
        return number(value, 0)
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: float) -> str:
    """Format a gain or a loss with its sign.

    Example:
        >>> percent(3.14), percent(-0.2), percent(float("nan"))
        ('+3.1 %', '-0.2 %', '–')
    """
    return f"{round(value, 1) + 0.0:+.1f} %" if math.isfinite(value) else NOTHING


def probability(value: float) -> str:
    """Format a p-value.

    Example:
        >>> probability(0.0314), probability(0.00002), probability(float("nan"))
        ('0.031', '<0.001', '–')
    """
    if math.isnan(value):
        return NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"
