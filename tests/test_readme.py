"""Every block of Python and shell in the README and in docs/ runs as it stands: a page from top to bottom, in its own folder.

A block of ``text`` right below one of code is what that code prints. Of Python its lines are the last ones printed, with equal
words and numbers that are nearly equal, since the last digits differ from machine to machine. Of a command they are some of its
lines, and numbers, such as seconds, are not compared."""

import contextlib
import io
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
from tests.outputs import numbers, without_numbers

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
    output: str
    """What the page says that it prints, or nothing."""


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in re.finditer(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, flags=re.DOTALL | re.MULTILINE):
        code = "\n" * text[: found.start(2)].count("\n") + found[2]
        yield Block(found[1], code, needs(text, found.start()), found[3] or "")


def needs(text: str, index: int) -> list[str]:
    """Return the packages that ``<!-- needs: lightning -->`` names for the code at this index, since nothing installs them for the
    tests: at the top of the page for all of it, below a heading for its section."""
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    ends = list(accumulate(map(len, sections)))
    here = {0, next(number for number, end in enumerate(ends) if index < end)}
    named = [line for number in here for line in re.findall(r"<!-- needs: (.*?) -->", sections[number])]
    return [name.strip() for line in named for name in line.split(",")]


def run_python(code: str, page: Path, names: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, str(page), "exec"), names)
    return printed.getvalue()


def run_shell(code: str) -> str:
    """Run a block with the command of this installation, in one process, since starting others takes longer than their work."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "LOKY_MAX_CPU_COUNT": "1"}
    done = subprocess.run(["sh", "-e", "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_output(block: Block, printed: str, page: Path) -> None:
    """Compare what was printed with what the page says; a tutorial shows whatever its Python prints."""
    shown, lines = block.output.splitlines(), printed.splitlines()
    if block.language == "sh":
        left = iter([without_numbers(line) for line in lines])
        assert all(without_numbers(line) in left for line in shown), printed  # some of the lines, in their order
        return
    is_shown = bool(shown) or "print(" not in block.code or page.parent.name != "tutorials"
    assert is_shown, f"{page.name} does not show what is printed:\n{printed}"
    last = "\n".join(lines[len(lines) - len(shown) :])
    assert without_numbers(last) == without_numbers(block.output), printed
    assert numbers(last) == pytest.approx(numbers(block.output), rel=0.2, abs=0.05), printed


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
    names: dict[str, object] = {"__name__": "page"}
    for block in found:
        if missing.isdisjoint(block.needs):
            printed = run_shell(block.code) if block.language == "sh" else run_python(block.code, page, names)
            check_output(block, printed, page)
    if missing:
        pytest.skip(f"code of {page.name} that needs {', '.join(sorted(missing))}, which is not installed, was not run")


def test_a_section_needs_what_it_names_and_what_the_top_of_the_page_names(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: a -->\n```python\n1\n```\n## B\n<!-- needs: b, c -->\n```python\n2\n```\n## D\n```sh\ntrue\n```\n")
    assert [block.needs for block in blocks(page)] == [["a"], ["a", "b", "c"], ["a"]]


@pytest.mark.parametrize(
    ("code", "shown"),
    [("print('a', 1.0)", "a 2.0"), ("print('a', 1.0)", "b 1.0"), ("print('a', 1.0)", ""), ("print('a', 1.0)", "a 1.0 1.0")],
    ids=["another number", "another word", "nothing", "one number more"],
)
def test_a_tutorial_shows_what_its_code_prints(code: str, shown: str, tmp_path: Path) -> None:
    page = tmp_path / "tutorials" / "page.md"
    page.parent.mkdir()
    page.write_text(f"```python\nprint('before')\n{code}\n```\n" + (f"\n```text\n{shown}\n```\n" if shown else ""))
    (block,) = blocks(page)
    printed = run_python(block.code, page, {})
    with pytest.raises(AssertionError):
        check_output(block, printed, page)
    check_output(block._replace(output="before\na 1.01\n"), printed, page)
    check_output(block._replace(output="a 1.01\n"), printed, page)


def test_a_page_shows_lines_of_a_command_in_their_order(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\necho a 1; echo b 2; echo c 3\n```\n\n```text\na 7\nc 9\n```\n")
    (block,) = blocks(page)
    printed = run_shell(block.code)
    check_output(block, printed, page)
    for wrong in ("c 9\na 7\n", "a 7\nd 9\n"):
        with pytest.raises(AssertionError):
            check_output(block._replace(output=wrong), printed, page)


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
