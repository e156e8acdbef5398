"""The page in a real browser: mouse and keyboard work, it fits a phone, and it logs no error and requests nothing."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gar.app.report import Results, write_report
from tests.app.report.browser import Browser

pytestmark = pytest.mark.xdist_group("report")

FIRST_COLUMN = "[...document.querySelectorAll('table.scores')[0].tBodies[0].rows].map(row => row.cells[{}].dataset.value)"


def column(browser: Browser, index: int) -> list[float]:
    return [float(value) for value in browser.run(FIRST_COLUMN.format(index))]


def order(browser: Browser, index: int) -> str:
    return str(browser.run(f"document.querySelector('table.scores').tHead.rows[0].cells[{index}].getAttribute('aria-sort')"))


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.open(page)
    return browser


@pytest.fixture(autouse=True)
def silent(browser: Browser) -> Iterator[None]:
    """After every test, check that nothing was logged or fetched, whatever was clicked."""
    yield
    assert browser.logged == []
    assert len(browser.requests) == 1, browser.requests
    assert browser.requests[0].startswith("file://")
    browser.run("try { localStorage.clear() } catch {}")


def test_requests_and_errors_would_be_seen(browser: Browser, page: Path, tmp_path: Path) -> None:
    """Open the page without its policy, with an image from elsewhere and an error: both are noticed."""
    text = re.sub(r"<meta http-equiv.*?>", "", page.read_text()).replace("<main", "<img src='absent.png' alt=''><main")
    (tmp_path / "bad.html").write_text(text.replace('"use strict";', '"use strict"; console.error("logged");'))
    browser.open(tmp_path / "bad.html")
    assert [url.rsplit("/", 1)[1] for url in browser.requests] == ["bad.html", "absent.png"]
    assert any("logged" in entry for entry in browser.logged)
    browser.open(page)


def test_it_opens_sorted_by_the_selection_metric(opened: Browser) -> None:
    assert order(opened, 1) == "ascending"
    assert column(opened, 1) == sorted(column(opened, 1))


def test_headings_sort_by_mouse(opened: Browser) -> None:
    heading = "table.scores thead th:nth-child({}) button"
    opened.click(heading.format(4))
    assert order(opened, 3) == "descending", "a correlation shows its best first"
    assert order(opened, 1) == "none"
    assert column(opened, 3) == sorted(column(opened, 3), reverse=True)
    opened.click(heading.format(4))
    assert order(opened, 3) == "ascending"
    assert column(opened, 3) == sorted(column(opened, 3))
    assert opened.run("document.getElementById('status').textContent") == "Sorted by Pearson, ascending"
    opened.click(heading.format(1))
    names = opened.run(FIRST_COLUMN.format(0))
    assert names == sorted(names)


@pytest.mark.parametrize("key", ["Enter", " "])
def test_headings_sort_by_keyboard(opened: Browser, key: str) -> None:
    opened.run("document.querySelector('table.scores thead th:nth-child(3) button').focus()")
    opened.press(key)
    assert order(opened, 2) == "ascending"
    assert column(opened, 2) == sorted(column(opened, 2))
    opened.press("Tab")
    opened.press(key)
    assert order(opened, 3) == "descending", "the next heading is the next stop"


def by_problem(selector: str, asked: str) -> str:
    """Return a script that evaluates an expression on the elements of every problem."""
    return f"[...document.querySelectorAll('.problem')].map(problem => [...problem.querySelectorAll('{selector}')].{asked})"


def test_methods_are_switched_off_and_on_in_all_figures_of_a_problem(opened: Browser) -> None:
    shown = by_problem("[data-series=mae]", "filter(mark => mark.getClientRects().length).length")
    before = opened.run(shown)
    assert min(before) > 3
    opened.click(".problem [data-toggle=mae]")
    assert opened.run(shown) == [0, before[1]]
    pressed = (
        "[...document.querySelectorAll('.problem')].map(p => [...p.querySelectorAll('[data-toggle=mae]')].map(b => b.ariaPressed))"
    )
    assert {*opened.run(pressed)[0]} == {"false"}
    assert {*opened.run(pressed)[1]} == {"true"}
    assert opened.run("document.querySelector('.problem [data-series=gar]').getClientRects().length") > 0
    opened.run("document.querySelector('.problem [data-toggle=mae]').focus()")
    opened.press(" ")
    assert opened.run(shown) == before


def test_ranks_replace_values(opened: Browser) -> None:
    heights = "[...document.querySelector('[data-view]').closest('figure').querySelectorAll('.view')].map(v => v.offsetHeight > 0)"
    assert opened.run(heights) == [True, False]
    opened.click("[data-view='1']")
    assert opened.run(heights) == [False, True]
    assert opened.run("document.querySelector(\"[data-view='1']\").ariaPressed") == "true"


def colours(browser: Browser) -> tuple[str, str, str]:
    selectors = ("body", ".panel text", ".panel path[data-series=gar]")
    background, ink, line = (f"getComputedStyle(document.querySelector('{selector}'))" for selector in selectors)
    script = f"[{background}.backgroundColor, {ink}.fill, {line}.stroke]"
    background, ink, line = browser.run(script)
    return background, ink, line


def test_the_theme_follows_the_system_and_the_button(browser: Browser, page: Path) -> None:
    browser.open(page, dark=False)
    light = colours(browser)
    browser.open(page, dark=True)
    dark = colours(browser)
    assert all(one != other for one, other in zip(light, dark, strict=True))
    assert browser.run("document.getElementById('theme').ariaPressed") == "true"
    browser.click("#theme")
    assert colours(browser) == light
    browser.click("#theme")
    assert colours(browser) == dark


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_sideways_scrolling(browser: Browser, page: Path, hostile_page: Path, width: int) -> None:
    for path in (page, hostile_page):
        browser.open(path, width=width)
        assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("window.scrollTo(500, 0)")
    assert browser.run("window.scrollX") == 0


def test_text_in_figures_can_be_read_on_a_phone(browser: Browser, page: Path) -> None:
    browser.open(page, width=390)
    size = "parseFloat(getComputedStyle(text).fontSize)"
    scale = "text.ownerSVGElement.clientWidth / text.ownerSVGElement.viewBox.baseVal.width"
    texts = "[...document.querySelectorAll('.panel text')].filter(text => text.getClientRects().length)"
    script = f"Math.min(...{texts}.map(text => {size} * {scale}))"
    assert browser.run(script) > 8.5
    assert browser.run("[...document.querySelectorAll('.legend button')].every(b => b.offsetHeight >= 40)")


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened: Browser) -> None:
    opened.press("Tab")
    assert opened.run("document.activeElement.className") == "skip"
    opened.press("Tab")
    assert opened.run("document.activeElement.id") == "download"
    assert opened.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    missed = "[...document.querySelectorAll('button, a, summary')].filter(e => e.tabIndex < 0).length"
    assert opened.run(missed) == 0


def test_names_and_roles_for_screen_readers(opened: Browser) -> None:
    opened.send("Accessibility.enable")
    nodes = [node for node in opened.send("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
    by_role: dict[str, list[str]] = {}
    for node in nodes:
        by_role.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role in ("button", "link", "image", "figure", "region", "navigation", "columnheader"):
        assert all(by_role[role]), f"a {role} without a name"
    assert len(by_role["main"]) == 1
    assert any("GAR" in name and "Pearson" not in name for name in by_role["image"])


def test_the_data_can_be_saved(opened: Browser, tmp_path: Path, page: Path) -> None:
    read = "JSON.parse(document.getElementById('results').textContent)"
    assert opened.run(f"{read}.problems.length") == 2
    assert opened.run(read) == json.loads((page.parent / "results.json").read_text())
    opened.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened.click("#download")
    opened.run("new Promise(done => setTimeout(done, 800))")
    saved = tmp_path / "results.json"
    assert json.loads(saved.read_text()) == json.loads((page.parent / "results.json").read_text())
    opened.requests[:] = [url for url in opened.requests if not url.startswith("blob:")]


@pytest.fixture(scope="module")
def long_page(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with warnings, references, and more rows in its table than are shown at first."""
    problem = results.problems[0]
    more = [
        replace(one, loss=f"own_{number}", title=f"Own {number}") for number, one in enumerate([*problem.methods, *problem.methods])
    ]
    reference = replace(problem.methods[0], loss="ridge", family="reference", title="Linear (ridge)", scores={"mae": [900.0] * 3})
    methods = [replace(one, ensemble={"mae": 1.5, "r2": 0.5}) for one in (*problem.methods, *more[:7])]
    warned = replace(problem, methods=methods, references=[reference], warnings=["Column 'copy' gives it away."], saved="gar")
    return write_report(replace(results, problems=[warned]), tmp_path_factory.mktemp("long"))


def test_a_long_table_shows_ten_rows_until_all_are_wanted(browser: Browser, long_page: Path) -> None:
    browser.open(long_page)
    shown = "[...document.querySelectorAll('table.scores tbody tr')].filter(row => row.getClientRects().length).length"
    assert browser.run(shown) == 10
    browser.click("table.scores thead th:nth-child(1) button")
    assert browser.run(shown) == 10
    browser.click("[data-all]")
    assert browser.run(shown) == 13
    assert browser.run("document.getElementById('status').textContent") == "All rows are shown"


@pytest.mark.parametrize("width", [390, 1280])
def test_warnings_and_what_is_saved_stand_before_the_numbers(browser: Browser, long_page: Path, width: int) -> None:
    browser.open(long_page, width=width)
    top = "document.querySelector('{}').getBoundingClientRect().top"
    tops = [browser.run(top.format(selector)) for selector in ("h1", "p.saved", ".warnings", "table.scores")]
    assert tops == sorted(tops)
    assert "gives it away" in browser.run("document.querySelector('.warnings').innerText")
    assert "Saved is GAR" in browser.run("document.querySelector('p.saved').innerText")
    assert browser.run("document.querySelector('td.saved').innerText").startswith("1.5")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelectorAll('tr.reference').length") == 1


def test_strange_names_run_nothing(browser: Browser, hostile_page: Path) -> None:
    browser.open(hostile_page)
    assert browser.run("document.scripts.length") == 2
    assert "<script>alert(1)</script>" in browser.run("document.body.innerText")
    browser.click("table.scores thead th:nth-child(1) button")
    browser.click("[data-toggle=other-0]")


def test_the_policy_is_in_force(opened: Browser) -> None:
    """Check that the browser enforces the policy: a script that is inserted later, and a request, are refused."""
    opened.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
    assert opened.run("window.ran") is None
    assert opened.run("fetch('https://example.org/').then(() => 'fetched', () => 'refused')") == "refused"
    assert len(opened.logged) >= 2
    opened.logged.clear()
