"""Rules of the house that a reader relies on: who imports whom, and that every public name is explained."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import gar
from gar import functional

SOURCE = Path(gar.__file__).parent
LAYERS = (
    {"errors"},
    {"distributed", "files", "statistics"},
    {"functional", "report"},
    {"accumulation", "losses", "metrics"},
    {"stack"},
    {"datasets", "search", "tables"},
    {"boosting", "estimators", "models", "symbolic", "vision"},
    {"compare", "paper"},
    {"commands"},
    {"cli"},
    {"__main__"},
)
"""A room imports from itself and from earlier layers only. So `report` knows results, not training."""


def imported(path: Path) -> set[str]:
    """Modules of this project that a file imports at its top."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "gar"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    below = [place for place, layer in enumerate(LAYERS) if room in layer]
    assert below, f"say in this test where the new room {room!r} belongs"
    allowed = {room}.union(*LAYERS[: below[0]])
    for name in imported(path) - {"gar"}:
        assert name.split(".")[1] in allowed, f"{room} must not import {name}"


def test_importing_the_package_is_cheap() -> None:
    """Nothing heavy is imported before it is used."""
    code = "import sys, gar; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", [*functional.__all__, *(n for n in gar.__all__ if n != "__version__")])
def test_public_names_are_explained(name: str) -> None:
    thing = getattr(functional, name, None) or getattr(gar, name)
    assert inspect.getdoc(thing)


@pytest.mark.parametrize("name", functional.__all__)
def test_functions_have_an_example_and_keyword_only_options(name: str) -> None:
    function = getattr(functional, name)
    assert "Example:" in (inspect.getdoc(function) or "")
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.default is parameter.empty or parameter.kind is parameter.KEYWORD_ONLY
