"""Rules of the house that a reader relies on: which package imports which, and that every public name is explained."""

import ast
import inspect
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import gar
from gar import functional

SOURCE = Path(gar.__file__).parent
PAPER = SOURCE.parents[1] / "reproduction" / "gar_reproduction"
FILES = sorted(SOURCE.rglob("*.py"))
LAYERS = (
    {"errors"},
    {"distributed", "files", "groups", "pickles", "registry", "statistics", "workers"},
    {"validation"},
    {"encoding", "functional"},
    {"group_metrics"},
    {"accumulation", "heads", "losses", "metrics", "sampling"},
    {"stack"},
    {"search"},
    {"boosting", "estimators", "integrations", "vision"},
    {"app"},
    {"__main__"},
)
"""The floors of the library, the lowest first: a package imports from itself and from earlier layers only."""
APP_LAYERS = ({"plugins", "report", "tables"}, {"models"}, {"compare"}, {"commands"}, {"cli"})
"""The same inside ``gar.app``. So ``report`` knows results, not training."""
BASE = {"torch", "numpy", "scipy", "sklearn", "joblib"}
"""What the base install brings; everything else is an extra and imported where it is used."""
EXTRAS = {"app", "vision", "integrations"}
"""Packages that are of use with their extra only."""


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """Return the modules that are imported anywhere in these statements."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def layer_of(name: str, layers: tuple[set[str], ...]) -> int:
    found = [index for index, layer in enumerate(layers) if name in layer]
    assert found, f"say in this test which layer the new module {name!r} belongs to"
    return found[0]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    package = package_of(path)
    if package == "__init__":
        return
    allowed = {package}.union(*LAYERS[: layer_of(package, LAYERS)])
    for name in imported(ast.parse(path.read_text())):
        parts = name.split(".")
        assert parts[0] != "gar_reproduction", f"{path.name} knows of the paper's reproduction"
        if parts[0] == "gar" and len(parts) > 1:
            assert parts[1] in allowed, f"{package} must not import {name}"
            assert parts[1] == package or not any(part.startswith("_") for part in parts), f"{name} is private to its package"


@pytest.mark.parametrize("path", [p for p in FILES if package_of(p) == "app"], ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_inside_the_app_point_one_way(path: Path) -> None:
    inside = path.relative_to(SOURCE / "app").parts[0].removesuffix(".py")
    if inside == "__init__":
        return
    allowed = {inside}.union(*APP_LAYERS[: layer_of(inside, APP_LAYERS)])
    for name in imported(ast.parse(path.read_text())):
        if name.startswith("gar.app."):
            assert name.split(".")[2] in allowed, f"app.{inside} must not import {name}"


@pytest.mark.parametrize("path", [p for p in FILES if package_of(p) not in EXTRAS], ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_base_install_needs_no_extra(path: Path) -> None:
    """Return to importing inside a function what only an extra brings."""
    top = ast.Module([node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    others = {name.split(".")[0] for name in imported(top)} - BASE - {"gar"} - set(sys.stdlib_module_names)
    optional = {"ray"} if path.name == "ray_backend.py" else set()
    assert others <= optional


def classes() -> Iterator[str]:
    for path in [*FILES, *sorted(PAPER.rglob("*.py"))]:
        yield from (node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))


def test_one_name_one_meaning() -> None:
    """Two classes of one name make a reader ask which is meant."""
    assert not [name for name, count in Counter(classes()).items() if count > 1]


def test_importing_the_package_is_cheap() -> None:
    """Nothing heavy is imported before it is used."""
    code = "import sys, gar, gar.registry; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
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
