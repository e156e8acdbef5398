"""Figures: all are drawn from real results, described in words, and the same every time."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.path import Path as MplPath
from matplotlib.transforms import Affine2D

from gar.app.report import Method, Predictions, Problem, Results
from gar.app.report.drawing import Plot, View, common_range, draw, drawing, method_looks, png_of, point_beyond, svg_of
from gar.app.report.page import in_order, plots_of
from gar.app.report.prediction_plots import Pairs, _bias, pairs_of, ranks_of, spread, thin
from gar.app.report.score_plots import _smooth
from gar.app.report.svg import _path_data, panel_svg
from tests.app.report.test_results import make_problem

pytestmark = pytest.mark.xdist_group("report")


def view_of(problem: Problem) -> View:
    return View(problem, in_order(problem), method_looks(problem.methods))


def named(problem: Problem) -> dict[str, Plot]:
    return {plot.name: plot for plot in plots_of(view_of(problem))}


def marks(problem: Problem, name: str, index: int) -> ElementTree.Element:
    """Return a panel as the page shows it."""
    view, plot = view_of(problem), named(problem)[name]
    with drawing():
        axes = draw(plot, view).axes[index]
        return ElementTree.fromstring(panel_svg(axes, plot.box(index), view.looks.values(), alt="words", clip="x-0"))


def numbers_in(data: str) -> np.ndarray:
    """Return the pairs of numbers in the data of a path."""
    numbers = re.findall(r"-?(?:\d+\.?\d*|\.\d+)", data.replace("h0", " "))
    return np.reshape([float(text) for text in numbers], (-1, 2))


def test_a_table_and_a_curve_have_all_their_figures(results: Results) -> None:
    shared = {"scores", "learning", "components", "sensitivity"}
    assert set(named(results.problems[0])) == shared | {"predicted-values", "predicted-ranks", "residuals"}
    assert set(named(results.problems[1])) == shared | {"fits"}


def test_bare_scores_have_one_figure() -> None:
    assert set(named(make_problem({"mae": [1.0, 2.0], "gar": [1.0, 1.5]}))) == {"scores"}


def test_descriptions_contain_numbers_of_every_method(results: Results) -> None:
    for problem in results.problems:
        for plot in named(problem).values():
            described = " ".join(panel.alt for panel in plot.panels)
            assert plot.caption
            for method in plot.legend:
                assert re.search(rf"{re.escape(method.title)}\D{{0,60}}\d", described), (plot.name, method.title)


def test_numbers_in_descriptions_are_those_drawn(results: Results) -> None:
    problem = results.problems[0]
    gar = next(method for method in problem.methods if method.name == "gar")
    assert gar.predictions is not None
    pairs = pairs_of(gar.predictions)
    alt = named(problem)["predicted-values"].panels[0].alt
    assert f"correlation {np.corrcoef(pairs.true, pairs.predicted)[0, 1]:.3f}".rstrip("0") in alt
    curve = np.array(gar.learning["mae"])
    assert f"at epoch {curve.argmin() + 1} of {len(curve)}" in named(problem)["learning"].panels[0].alt


def test_each_series_can_be_found_and_no_style_is_left(results: Results) -> None:
    panel = marks(results.problems[0], "learning", 0)
    series = {element.get("data-series") for element in panel.iter()} - {None}
    assert series == {method.name for method in results.problems[0].methods}
    text = ElementTree.tostring(panel, encoding="unicode")
    assert "style=" not in text
    assert "currentColor" in text
    assert "var(--series-gar)" in text
    assert "#" not in text.replace("url(#x-", ""), "every colour is one of the page's own"


def test_points_of_a_scatter_plot_are_where_the_file_has_them(results: Results) -> None:
    view, plot = view_of(results.problems[0]), named(results.problems[0])["predicted-values"]
    with drawing():
        svg = svg_of(draw(plot, view))
    space = "{http://www.w3.org/2000/svg}"
    group = next(element for element in ElementTree.fromstring(svg).iter(f"{space}g") if element.get("id") == "gar")
    expected = [(float(use.get("x", "")), float(use.get("y", ""))) for use in group.iter(f"{space}use")]
    panel = marks(results.problems[0], "predicted-values", 0)
    path = next(element for element in panel.iter("path") if element.get("data-series") == "gar")
    found = numbers_in(path.get("d", ""))
    assert len(found) == 88
    np.testing.assert_allclose(found, expected, atol=0.051)


def test_paths_keep_their_shape() -> None:
    points = [(0, 1.234), (10, 2), (20.06, -3), (0, 0), (1, 1), (1, 2), (3, 4), (5, 6), (7, 8)]
    path = MplPath(points, [1, 2, 2, 79, 1, 4, 4, 4, 2])
    assert _path_data(path.iter_segments(simplify=False)) == "M0 1.2l10 .8 10.1-5zM1 1C1 2 3 4 5 6l2 2"
    moved_line = MplPath([(0, 1), (2, 3)]).iter_segments(Affine2D().translate(10.0, 20.0), simplify=False)
    assert _path_data(moved_line) == "M10 21l2 2"


def test_lines_do_not_drift() -> None:
    """Steps lead from rounded point to rounded point, so that rounding errors do not add up along a line."""
    points = np.random.default_rng(0).uniform(0, 300, size=(500, 2)).round(6)
    start, steps = _path_data(MplPath(points).iter_segments(simplify=False)).split("l")
    np.testing.assert_allclose(np.cumsum(numbers_in(f"{start} {steps}"), axis=0), points, atol=0.0501)


def test_same_results_same_bytes(results: Results) -> None:
    view, plot = view_of(results.problems[0]), named(results.problems[0])["residuals"]
    made = []
    for _ in range(2):
        with drawing():
            figure = draw(plot, view)
            made.append((svg_of(figure), png_of(figure)))
    assert made[0] == made[1]
    assert made[0][1].startswith(b"\x89PNG")


def test_a_users_settings_do_not_leak_in_or_out(results: Results) -> None:
    import matplotlib

    view, plot = view_of(results.problems[0]), named(results.problems[0])["residuals"]
    with drawing():
        plain = svg_of(draw(plot, view))
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False}):
        with drawing():
            assert svg_of(draw(plot, view)) == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_several_targets_share_a_figure_and_missing_labels_are_left_out(results: Results) -> None:
    def doubled(method: Method) -> Method:
        assert method.predictions is not None
        true, predicted = np.array(method.predictions.true[0]), np.array(method.predictions.predicted[0])
        other = 1000 * true + 5
        other[:10] = np.nan
        both = Predictions(true=[true.tolist(), other.tolist()], predicted=[predicted.tolist(), (1000 * predicted + 5).tolist()])
        return replace(method, predictions=both)

    problem = results.problems[0]
    problem = replace(problem, methods=[doubled(method) for method in problem.methods], targets=["a", "b"])
    pairs = pairs_of(problem.methods[0].predictions)  # type: ignore[arg-type]
    assert len(pairs.true) == 88 + 78
    assert np.abs(pairs.true).max() < 6, "standardised, or the second target would hide the first"
    plot = named(problem)["predicted-values"]
    assert "All 2 targets" in plot.caption
    with drawing():
        assert svg_of(draw(plot, view_of(problem)))


def test_ranks_are_percentages_of_the_order() -> None:
    ranks = ranks_of(Predictions(true=[[10.0, 30.0, 20.0, float("nan")]], predicted=[[1.0, 2.0, 3.0, 4.0]]))
    np.testing.assert_allclose(ranks.true, [100 / 6, 500 / 6, 50])
    np.testing.assert_allclose(ranks.predicted, [100 / 6, 50, 500 / 6])


def test_large_scatter_plots_are_thinned_evenly() -> None:
    values = np.random.default_rng(0).normal(size=10_000)
    kept = values[thin(values, 500)]
    assert len(kept) == 500
    np.testing.assert_allclose(np.quantile(kept, [0, 0.1, 0.5, 0.9, 1]), np.quantile(values, [0, 0.1, 0.5, 0.9, 1]), atol=0.02)


def test_rows_with_one_label_stay_together() -> None:
    true = np.repeat([3.0, 5.0, 6.0], [10, 60, 30])
    labels, errors = _bias(Pairs(true, true + np.arange(100) / 100))
    assert len(labels) < 10
    np.testing.assert_allclose(errors[labels == 6.0], np.mean(np.arange(70, 100) / 100))


def test_grades_are_jittered_and_measurements_left_alone() -> None:
    grades = np.repeat([1.0, 2.0, 4.0], 20)
    moved_grades = spread(grades)
    assert len(np.unique(moved_grades)) == 60
    assert 0.2 < np.abs(moved_grades - grades).max() < 0.31
    measured = np.linspace(0, 1, 60)
    np.testing.assert_array_equal(spread(measured), measured)
    np.testing.assert_array_equal(spread(np.ones(5)), np.ones(5))


def test_a_method_far_off_does_not_set_the_scale() -> None:
    groups = {name: np.array([value, value + 0.1]) for name, value in zip("abcde", (1.0, 1.1, 1.2, 0.9, 50.0), strict=True)}
    np.testing.assert_allclose(common_range(groups), (0.9, 1.3))
    assert common_range(groups | {"gar": np.array([60.0])})[1] == 60.0, "GAR is shown however bad it is"
    assert common_range({}) == (0.0, 1.0)


def test_a_running_median_ignores_a_single_spike() -> None:
    np.testing.assert_array_equal(_smooth(np.array([1.0, 1.0, 99.0, 1.0, 1.0]), 3), np.ones(5))
    np.testing.assert_array_equal(_smooth(np.arange(4.0), 1), np.arange(4.0))


@pytest.mark.parametrize(
    "values", [[], [float("nan")] * 5, [0.0] * 5, [1e-300, 1e300, 1.0, 2.0, 3.0]], ids=["none", "nan", "zero", "wide"]
)
def test_odd_curves_are_drawn(results: Results, values: list[float]) -> None:
    problem = results.problems[0]
    methods = [replace(problem.methods[-1], learning={"mae": values}, components={"diff": values}), problem.methods[0]]
    problem = replace(problem, methods=methods)
    for name in ("learning", "components"):
        with drawing():
            assert svg_of(draw(named(problem)[name], view_of(problem)))


def test_constant_predictions_are_drawn(results: Results) -> None:
    problem = results.problems[0]
    flat = replace(problem.methods[-1], predictions=Predictions(true=[[1.0, 1.0, 1.0]], predicted=[[2.0, 2.0, 9e9]]))
    problem = replace(problem, methods=[flat])
    for name in ("predicted-values", "predicted-ranks", "residuals"):
        with drawing():
            assert svg_of(draw(named(problem)[name], view_of(problem)))
    assert "1 lie beyond the frame" in named(problem)["predicted-values"].panels[0].alt


def test_other_scripts_and_dollars_in_names(results: Results, tmp_path: Path) -> None:
    problem = replace(results.problems[0], targets=["Festigkeit $x_{$ 強度 🙂"])
    panel = marks(problem, "predicted-values", 0)
    assert any("強度" in (element.text or "") for element in panel.iter("text"))


def test_numbers_beyond_the_frame_show_digits_that_can_be_compared() -> None:
    axes = Figure().subplots()
    for value in (0.8, 0.807, -1234.5):
        point_beyond(axes, 0, value, (0.0, 0.5), "black")
    assert [text.get_text() for text in axes.texts] == ["0.800 →", "0.807 →", "← -1,234"]
