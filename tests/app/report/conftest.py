"""Real results, a report of them, and a browser to look at it; each is made once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gar.app.report import Results, write_report
from tests.app.report.browser import Browser, find_browser
from tests.app.report.example import hostile, make_results


@pytest.fixture(scope="session")
def results() -> Results:
    return make_results()


@pytest.fixture(scope="session")
def page(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(results, tmp_path_factory.mktemp("report") / "made" / "here")


@pytest.fixture(scope="session")
def few_results(results: Results) -> Results:
    """Return two methods on one problem, which are quicker to draw."""
    problem = results.problems[0]
    return replace(results, problems=[replace(problem, methods=[problem.methods[0], problem.methods[-1]])])


@pytest.fixture(scope="session")
def few_page(few_results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(few_results, tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="session")
def hostile_page(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(hostile(results), tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium on this machine: install the package 'chromium' to test the page in a browser")
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
