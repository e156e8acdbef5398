"""The site builds with warnings as errors, it documents every public name, and its links resolve."""

import importlib
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import gar

ROOT = Path(__file__).parent.parent
BUILDERS = ("sphinx", "myst_parser", "furo", "sphinx_click", "keras")
API = {page.read_text().split("\n", 1)[0].removeprefix("# "): page.stem for page in sorted((ROOT / "docs/api").glob("*.md"))}
"""Pages of the reference by their titles, which are the names of modules."""
MODULES = [title for title in API if title.startswith("gar.")]
FOR_THE_LIBRARY_ITSELF = {
    "gar.files",
    "gar.distributed",
    "gar.validation",
    "gar.pickles",
    "gar.workers",
    "gar.app.cli",
    "gar.app.commands",
    "gar.app.plugins",
}
"""Modules without a page: losses, estimators and searches use the first five, and the page of commands shows the others."""

pytestmark = pytest.mark.xdist_group("docs")  # one build for all tests


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in BUILDERS:
        pytest.importorskip(package, reason=f"{package} is not installed: no site to test: the extra 'docs'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(ROOT / "docs"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


class Page(HTMLParser):
    """The links of a page, what a browser loads with it, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        self.loaded += [value for name, value in attrs if name == "src" or (tag, name) == ("link", "href") if value]
        self.anchors |= {value for name, value in attrs if name == "id" and value}


def test_links_inside_the_site_resolve(site: Path) -> None:
    pages = {file: Page(file) for file in site.rglob("*.html")}
    checked = 0
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target.exists(), f"{file.name} links to {link}, which does not exist"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{file.name} links to {link}: no such anchor"
                checked += 1
    assert checked


def test_pages_load_nothing_from_other_sites(site: Path) -> None:
    for file in site.rglob("*.html"):
        assert not [link for link in Page(file).loaded if urlsplit(link).netloc]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_on_the_page_of_its_module(site: Path, name: str) -> None:
    module = importlib.import_module(name)
    page = API[name]
    anchors = Page(site / f"api/{page}.html").anchors
    for public in getattr(module, "__all__", None) or _defined_in(module):
        assert f"{name}.{public}" in anchors, f"{name}.{public} is not in docs/api/{page}.md"


def _defined_in(module: object) -> list[str]:
    home = vars(module)["__name__"]
    return [name for name, value in vars(module).items() if name[0] != "_" and getattr(value, "__module__", None) == home]


def test_every_module_and_every_short_name_is_in_the_reference() -> None:
    modules = {f"gar.{name}" for name in dir(gar) if name not in gar.__all__ and name[0] != "_"} - {"gar.app", "gar.integrations"}
    for package in ("gar.app", "gar.integrations"):
        modules |= {f"{package}.{found.name}" for found in pkgutil.iter_modules(importlib.import_module(package).__path__)}
    assert modules - FOR_THE_LIBRARY_ITSELF <= set(MODULES)
    index = (ROOT / "docs/api/index.md").read_text()
    for name in gar.__all__:
        assert name == "__version__" or f"`{name}`" in index


def test_every_command_is_in_the_reference(site: Path) -> None:
    from gar.app.cli import gar as group

    text = re.sub(r"<[^>]+>", "", (site / "api/commands.html").read_text())
    for name in group.commands:
        assert f"gar {name} [OPTIONS]" in text
