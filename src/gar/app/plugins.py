"""What other packages add: commands, data sets, and losses that a module registers when it is imported."""

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from gar.errors import InputError


def installed(group: str, warn: Callable[[str], None] = warnings.warn) -> list[Any]:
    """Load what installed packages provide as entry points of a group; warn about one that cannot be imported, and leave it out."""
    found = []
    for entry in entry_points(group=group):
        try:
            found.append(entry.load())
        except Exception as error:  # whatever is wrong with another package, this one still works
            reason = f"{type(error).__name__}: {error}"
            warn(f"plug-in {entry.value!r} ({group}) cannot be imported ({reason}); repair or uninstall the package that brings it")
    return found


def import_plugin(module: str) -> None:
    """Import a module, also from the current folder, which calls :func:`gar.losses.register` on import."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        import_module(module)
    except (ImportError, SyntaxError, ValueError) as error:
        raise InputError(
            f"--plugin {module!r} cannot be imported ({error}); name an installed module, or one of the current folder: "
            "my_losses for my_losses.py"
        ) from error
