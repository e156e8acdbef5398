"""Every block of Python and shell in the README and in docs/ runs as it stands: a page from top to bottom, in its own folder."""

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

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


class Block(NamedTuple):
    """Code of a page. Lines before it are kept as empty ones, so that an error names the line of the page."""

    language: str
    code: str
    needs: list[str]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in re.finditer(r"^```(python|sh)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        yield Block(found[1], "\n" * text[: found.start(2)].count("\n") + found[2], needs(text, found.start()))


def needs(text: str, index: int) -> list[str]:
    """Return the packages that ``<!-- needs: lightning -->`` names for the code at this index, since nothing installs them for the
    tests: at the top of the page for all of it, below a heading for its section."""
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    ends = list(accumulate(map(len, sections)))
    here = {0, next(number for number, end in enumerate(ends) if index < end)}
    named = [line for number in here for line in re.findall(r"<!-- needs: (.*?) -->", sections[number])]
    return [name.strip() for line in named for name in line.split(",")]


def run_shell(code: str) -> None:
    """Run a block with the command of this installation, in one process, since starting others takes longer than their work."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "LOKY_MAX_CPU_COUNT": "1"}
    done = subprocess.run(["sh", "-e", "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(blocks(page))
    assert len(found) == len(re.findall(r"```(?:python|sh)\b", page.read_text()))  # none is passed over
    wanted = {name for block in found for name in block.needs}
    missing = {name for name in wanted if find_spec(name) is None}
    if wanted - missing:
        warnings.simplefilter("default")  # until the test ends: packages that we do not pin may warn about each other
        if find_spec("torchvision"):
            import_torchvision()  # Lightning and transformers import it, and its wheel may lack operators
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {"__name__": "page"}
    for block in found:
        if not missing.isdisjoint(block.needs):
            continue
        if block.language == "sh":
            run_shell(block.code)
        else:
            exec(compile(block.code, str(page), "exec"), names)
    if missing:
        pytest.skip(f"code of {page.name} that needs {', '.join(sorted(missing))}, which is not installed, was not run")


def test_a_section_needs_what_it_names_and_what_the_top_of_the_page_names(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: a -->\n```python\n1\n```\n## B\n<!-- needs: b, c -->\n```python\n2\n```\n## D\n```sh\ntrue\n```\n")
    assert [block.needs for block in blocks(page)] == [["a"], ["a", "b", "c"], ["a"]]


def test_the_error_of_a_wrong_block_names_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\n1 / 0\n```\n\n```sh\nfalse\n```\n")
    python, shell = (block.code for block in blocks(page))
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
