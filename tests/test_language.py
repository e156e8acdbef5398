"""The project speaks the field's language: no private vocabulary in names, docstrings, messages or pages."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "reproduction/gar_reproduction").rglob("*.py")])
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "reproduction").glob("*.md")])
PRIVATE = re.compile(
    r"""\b(
        champions? | duels? | merit | crew | tryouts? | shortlist\w* | waves? | (?:computing_on) | keeper | (?:Digest|digests) |
        (?:rows\ (?:that\ are\ )?left\ out) | (?:one\ in\ so\ many) | so\ many(?=\ (?:rows|models|epochs|values|bits)) |
        (?:tells?\ nothing) | (?:is|are)\ (?:told|said) | roads?
    )\b""",
    re.VERBOSE,
)
"""Words that the field has better ones for."""


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_words_are_those_of_the_field(path: Path) -> None:
    found = {match[0] for match in PRIVATE.finditer(path.read_text())}
    assert not found, f"{path} says {', '.join(sorted(found))}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_begin_with_a_sentence(path: Path) -> None:
    nodes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    for node in ast.walk(ast.parse(path.read_text())):
        first = (ast.get_docstring(node) or "").partition("\n")[0] if isinstance(node, nodes) else ""
        assert not re.match(r"(Of|The same|Those|Whether)\b", first), f"{path}: {first!r} is no sentence"
