"""Every block of Python and shell in the README and in docs/ runs as it stands: a page from top to bottom, in its own folder."""

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from gar.vision.torchvision_import import import_torchvision

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "reproduction/README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts),
]


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield language and code. Lines before a block are kept as empty ones, so that an error names the line of the page."""
    text = page.read_text()
    for found in re.finditer(r"^```(python|sh)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        yield found[1], "\n" * text[: found.start(2)].count("\n") + found[2]


def needs(page: Path) -> list[str]:
    """Return the packages that a page names in ``<!-- needs: lightning -->``, since nothing installs them for the tests."""
    return [name.strip() for line in re.findall(r"<!-- needs: (.*?) -->", page.read_text()) for name in line.split(",")]


def run_shell(code: str) -> None:
    """Run a block with the command of this installation, in one process, since starting others takes longer than their work."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "LOKY_MAX_CPU_COUNT": "1"}
    done = subprocess.run(["sh", "-e", "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in needs(page):
        if package == "lightning" and find_spec("torchvision"):
            import_torchvision()  # Lightning imports it, and its wheel may lack operators
        pytest.importorskip(package, reason=f"{page.name} needs {package}, which is not installed")
        warnings.simplefilter("default")  # until the test ends: packages that we do not pin may warn about each other
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {"__name__": "page"}
    found = list(blocks(page))
    assert len(found) == len(re.findall(r"```(?:python|sh)\b", page.read_text()))  # none is passed over
    for language, code in found:
        if language == "sh":
            run_shell(code)
        else:
            exec(compile(code, str(page), "exec"), names)


def test_the_error_of_a_wrong_block_names_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\n1 / 0\n```\n\n```sh\nfalse\n```\n")
    (_, python), (_, shell) = blocks(page)
    with pytest.raises(ZeroDivisionError) as error:
        exec(compile(python, str(page), "exec"), {})
    assert error.traceback[-1].lineno == page.read_text().splitlines().index("1 / 0")
    with pytest.raises(AssertionError):
        run_shell(shell)


def test_pages_link_to_files_that_exist() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
    assert len(PAGES) > 1
