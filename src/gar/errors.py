"""Errors of this library. Each is also the built-in error a caller would expect to catch."""

from numbers import Integral


class InputError(ValueError):
    """An argument cannot be used; the message names the value, what was expected and what to write instead."""


def whole_number(value: object, name: str, *, least: int = 1) -> int:
    """Return a whole number of any type, numpy's too, as an int; raise if it is something else or too small."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name}={value!r} is not a whole number of {least} or more")
    return int(value)
