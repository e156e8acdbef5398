"""The table in a terminal."""

import io
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from gar.app.report import Results, print_results
from gar.app.report.summary import ranking, score_texts
from tests.app.report.example import hostile
from tests.app.report.test_results import make_problem

pytestmark = pytest.mark.xdist_group("report")


def printed(results: Results, width: int, *, terminal: bool = False) -> str:
    out = io.StringIO()
    print_results(results, Console(file=out, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_every_number_is_there_and_no_line_too_long(results: Results, width: int) -> None:
    text = printed(results, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for problem in results.problems:
        assert problem.title in text
        for method in problem.methods:
            assert method.title in text
            for metric in method.scores:
                mean, sd = score_texts(problem, method, metric)
                assert mean in text
                assert sd in text
    for row in ("GAR over", "p unpaired", "p paired"):
        assert text.count(row) >= 2


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4, 1e6, 9e9])
def test_no_number_is_ever_cut(results: Results, size: float, width: int) -> None:
    """Several families with long names, and scores of any size: columns are left out before a number is cut."""
    problem = results.problems[0]
    large = [
        replace(
            one,
            family=family,
            title=f"{one.title} (LightGBM)",
            scores={name: [size * v for v in values] for name, values in one.scores.items()},
        )
        for one in problem.methods
        for family in ("mlp", "lightgbm")
    ]
    large = [replace(one, title=f"{one.title} {number}") for number, one in enumerate(large)]
    text = printed(replace(results, problems=[replace(problem, methods=large)]), width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for one in large:
        assert score_texts(replace(problem, methods=large), one, "mae")[0] in text


def test_the_best_is_marked_without_colour(results: Results) -> None:
    problem = results.problems[0]
    best = ranking(problem.methods, "pearson")[0]
    line = next(line for line in printed(results, 120).splitlines() if line.startswith(f"{best.title} "))
    assert f"*{' '.join(score_texts(problem, best, 'pearson'))}" in line


def test_colour_only_in_terminals(results: Results) -> None:
    assert "\x1b[" in printed(results, 120, terminal=True)
    assert "\x1b[" not in printed(results, 120)


def test_markup_in_names_is_shown_literally(results: Results) -> None:
    text = printed(hostile(results), 120)
    assert "\x1b" not in text
    assert "<script>" in text
    assert "[bold]" in text


def test_without_gar_there_is_no_gain() -> None:
    only = Results(command="", created="", gar="", problems=[make_problem({"mae": [1.0, 2.0], "mse": [3.0, 4.0]})])
    assert "GAR over" not in printed(only, 80)


def test_reading_results_imports_nothing_heavy() -> None:
    code = "import sys, gar.app.report; sys.exit(any(name in sys.modules for name in ('torch', 'matplotlib', 'jinja2', 'rich')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_printing_and_writing_need_no_torch() -> None:
    code = "import sys, gar.app.report.terminal, gar.app.report.page; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_family_has_its_gains() -> None:
    values: dict[str | tuple[str, str], list[float]] = {
        "mae": [2.0, 2.1],
        "gar": [1.0, 1.1],
        ("mae", "xgboost"): [4.0, 4.1],
        ("gar", "xgboost"): [3.0, 3.1],
    }
    text = printed(Results(command="", created="", gar="", problems=[make_problem(values)]), 80)
    for row in ("GAR over the best rival, MAE ", "GAR-XGBOOST over MAE-XGBOOST", "GAR-XGBOOST over the best rival, MAE "):
        assert text.count(row) == 1
    assert "+24.7 %" in text  # 3.05 against 4.05, and not against 2.05
