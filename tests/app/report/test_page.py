"""The page as a file: complete, self-contained, safe, and the same every time."""

import base64
import hashlib
import json
import re
import resource
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gar.app.report import Results, write_report
from gar.app.report.drawing import method_looks
from gar.app.report.page import _views
from gar.app.report.summary import headline
from gar.errors import InputError
from tests.app.report.example import HOSTILE

pytestmark = pytest.mark.xdist_group("report")
LIMIT = 1_500_000


class Tags(HTMLParser):
    """Collects all tags with their attributes, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.shown: list[str] = []
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        if self._open in self.inside:
            self.inside[self._open].append(data)
        else:
            self.shown.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def test_all_files_are_there_and_nothing_else(page: Path, results: Results) -> None:
    folder = page.parent
    assert sorted(path.name for path in folder.iterdir()) == ["figures", "report.html", "results.json"]
    figures = sorted(path.name for path in (folder / "figures").iterdir())
    assert {"1-diabetes-scores.png", "1-diabetes-scores.svg", "2-sine-fits.png"} <= set(figures)
    assert Results.read(folder).to_json() == results.to_json()


def test_the_page_is_small_beside_its_data(page: Path) -> None:
    text = page.read_text()
    assert len(text) - len(Tags(text).inside["script"][0]) < LIMIT / 4


def test_points_are_fewer_where_there_are_many_problems(results: Results) -> None:
    looks = method_looks(results.problems[0].methods)
    many = _views(replace(results, problems=[*results.problems] * 40), looks)[0]
    few = _views(results, looks)[0]
    assert few.points > 5 * many.points >= 500
    assert few.steps > many.steps >= 40


def test_nothing_is_fetched(page: Path) -> None:
    tags = Tags(page.read_text())
    for tag, attributes in tags.found:
        assert tag not in ("iframe", "object", "embed", "img", "base")
        for name in ("src", "srcset", "action", "data", "style"):
            assert name not in attributes, (tag, attributes)
        for name, value in attributes.items():
            if name.endswith("href"):
                assert value is not None
                assert re.match(r"#|figures/[\w-]+\.(png|svg)$|data:,$", value), (tag, value)
            assert not name.startswith("on"), (tag, attributes)
    assert "@import" not in tags.inside["style"][0]
    assert "url(" not in tags.inside["style"][0]


def test_links_lead_to_figures_and_sections(page: Path) -> None:
    tags = Tags(page.read_text())
    ids = [attributes["id"] for _, attributes in tags.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in tags.found:
        link = attributes.get("href") or ""
        if tag == "a":
            assert link[1:] in ids if link.startswith("#") else (page.parent / link).is_file(), link
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name) in (None, *ids)


def test_the_policy_allows_this_script_and_style_alone(page: Path) -> None:
    tags = Tags(page.read_text())
    policy = next(str(attributes["content"]) for tag, attributes in tags.found if attributes.get("http-equiv"))
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for text, source in ((tags.inside["script"][-1], "script-src"), (tags.inside["style"][0], "style-src")):
        code = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{source} 'sha256-{code}'" in policy


def test_the_finding_stands_on_top(page: Path, results: Results) -> None:
    text = page.read_text()
    assert f"<h1>{headline(results)}</h1>" in text
    assert results.command in text
    assert "A tiny training for tests." in text


def test_the_table_holds_the_means(page: Path, results: Results) -> None:
    cells = [attributes.get("data-value") for tag, attributes in Tags(page.read_text()).found if tag == "td"]
    for problem in results.problems:
        for method in problem.methods:
            for values in method.scores.values():
                assert repr(float(np.mean(values))) in cells


def test_the_page_contains_the_data(page: Path, results: Results) -> None:
    data = json.loads(Tags(page.read_text()).inside["script"][0])
    assert data == json.loads(results.to_json())


def test_strange_names_are_text(hostile_page: Path) -> None:
    text = hostile_page.read_text()
    tags = Tags(text)
    assert sum(tag == "script" for tag, _ in tags.found) == 2
    assert not any("alert" in script for script in tags.inside["script"][1:])
    assert "<script>alert" not in text
    shown = "".join(tags.shown)
    assert shown.count("<script>alert(1)</script>") > 10, "it is there, as text"
    assert "\x1b" not in text
    assert json.loads(tags.inside["script"][0])["command"] == HOSTILE


def test_strange_names_stay_in_their_folder(hostile_page: Path) -> None:
    names = [path.name for path in (hostile_page.parent / "figures").iterdir()]
    assert all(re.fullmatch(r"[12]-script-alert-1-script-[\w-]+\.(png|svg)", name) for name in names), names


def test_every_figure_has_words(page: Path) -> None:
    pictures = [attributes for tag, attributes in Tags(page.read_text()).found if attributes.get("role") == "img"]
    assert len(pictures) > 20
    assert all(re.search(r"\d", attributes.get("aria-label") or "") for attributes in pictures)


def test_same_results_same_files_and_others_are_left_alone(few_page: Path, few_results: Results, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.txt").write_text("mine")
    again = write_report(Results.from_json(few_results.to_json()), tmp_path)
    for path in few_page.parent.rglob("*.*"):
        assert (tmp_path / path.relative_to(few_page.parent)).read_bytes() == path.read_bytes(), path
    assert again == tmp_path / "report.html"
    assert (tmp_path / "figures" / "mine.txt").read_text() == "mine"


def test_a_write_that_fails_leaves_the_old_page(few_results: Results, tmp_path: Path) -> None:
    """A limit on file sizes stands for a disk that is full; a long note makes the page, which comes last, the largest file."""
    noted = replace(few_results, problems=[replace(few_results.problems[0], notes=["long " * 100_000])])
    (tmp_path / "report.html").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(noted.to_json()) + 1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write_report(noted, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "report.html").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures", "report.html", "results.json"]


def test_a_file_in_the_way_is_named(results: Results, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="taken is a file; name a folder"):
        write_report(results, tmp_path / "taken")
