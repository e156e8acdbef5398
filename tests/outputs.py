"""What code prints, against what a page or a notebook shows: digits differ from machine to machine."""

import re

_NUMBER = re.compile(r"\*?(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")  # a star marks the best of a column


def without_numbers(text: str) -> str:
    """Return words and signs only, with a mark in place of each number."""
    return " ".join(_NUMBER.sub("#", text).split())


def numbers(text: str) -> list[float]:
    """Return the numbers of a text."""
    return [float(number) for number in _NUMBER.findall(text)]
