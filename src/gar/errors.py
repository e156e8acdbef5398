"""Errors of this library. Each is also the built-in error a caller would expect to catch."""


class InputError(ValueError):
    """An argument cannot be used; the message names the value, what was expected and what to write instead."""
