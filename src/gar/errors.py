"""Errors of this library, and what their messages share. Each is also the built-in error a caller would expect to catch."""

from collections.abc import Iterable, Sequence


class InputError(ValueError):
    """An argument cannot be used; the message names the value, what was expected and what to write instead."""


def how_to_install(extra: str) -> str:
    """Return how to install an extra: from a clone or a wheel, since a package index may have another package of this name.

    Example:
        >>> how_to_install("onnx").partition(" in a clone")[0]
        "install the extra 'onnx': pip install -c constraints.txt '.[onnx]'"
    """
    from gar import __version__

    clone, wheel = f"-c constraints.txt '.[{extra}]'", f"'gar-{__version__}-py3-none-any.whl[{extra}]'"
    return f"install the extra {extra!r}: pip install {clone} in a clone of gar, or pip install {wheel}"


def quoted(names: Iterable[object]) -> str:
    """Return at most eight names in quotation marks, the first 40 characters of each, and the number of the others."""
    return first_few([repr(str(name)[:40]) for name in names], limit=8)


def first_few(names: Sequence[str], limit: int = 5) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
