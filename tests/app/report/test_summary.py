"""Sentences and tables report the numbers correctly, whichever method is best."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from gar.app.report import Method, Results
from gar.app.report.formatting import NO_BREAK, NOTHING
from gar.app.report.score_tables import gain_table, overview, score_table, target_table
from gar.app.report.summary import best_rival, compare_methods, headline, method_of_interest, ranking, saved_text, score, verdict
from gar.statistics import corrected_resampled_t
from tests.app.report.test_results import make_problem

pytestmark = pytest.mark.xdist_group("report")
GOOD, FAIR, BAD = [1.0, 1.1, 0.9, 1.0], [2.0, 2.1, 1.9, 2.0], [4.0, 4.1, 3.9, 4.0]


def results_of(*problems: object) -> Results:
    return Results(command="", created="", gar="", problems=problems)  # type: ignore[arg-type]


def test_numbers_of_a_real_comparison(results: Results) -> None:
    problem = results.problems[0]
    for method in problem.methods:
        values = np.array(method.scores["pearson"])
        assert score(method, "pearson").mean == pytest.approx(values.mean())
        assert score(method, "pearson").sd == pytest.approx(values.std())
    order = ranking(problem.methods, "pearson")
    assert np.diff([score(method, "pearson").mean for method in order]).max() <= 0
    gar, rival = method_of_interest(problem), best_rival(problem, "mae")
    assert gar is not None
    assert rival is not None
    comparison = compare_methods(problem, "mae", rival)
    mine, theirs = gar.scores["mae"], rival.scores["mae"]
    assert comparison.gain == pytest.approx(100 * (np.mean(theirs) - np.mean(mine)) / np.mean(theirs))
    assert comparison.p == pytest.approx(ttest_ind(mine, theirs).pvalue)
    assert comparison.p_corrected == corrected_resampled_t(mine, theirs, train_rows=236, test_rows=88)
    curve = results.problems[1]
    one, other = curve.methods[:2]
    paired = ttest_rel(one.scores["mae"], other.scores["mae"]).pvalue
    assert compare_methods(curve, "mae", one, other).p_corrected == pytest.approx(paired)


def test_a_win_is_reported() -> None:
    text = verdict(make_problem({"mae": BAD, "mse": FAIR, "gar": GOOD}))
    assert text == "GAR wins on Table: GAR has the lowest test MAE, 1.000, 50.0 % less than MSE with 2.000 (p < 0.001)."


def test_a_defeat_is_reported() -> None:
    text = verdict(make_problem({"mae": GOOD, "mse": FAIR, "gar": BAD}))
    assert text == ("GAR does not win on Table: MAE has the lowest test MAE, 1.000; GAR is number 3 of 3 with 4.000 (p < 0.001).")


def test_chance_is_mentioned_where_it_may_explain_the_result() -> None:
    near = [1.05, 0.95, 1.1, 1.0]
    close = verdict(make_problem({"mae": near, "gar": GOOD}))
    assert close.startswith(
        "No clear winner on Table: GAR has the lowest test MAE, 1.000; then MAE with 1.025; the difference may be"
    )
    lost = verdict(make_problem({"mae": GOOD, "mse": FAIR, "gar": near}))
    assert "GAR is number 2 of 3 with 1.025; the difference may be chance (p = " in lost
    assert "chance" not in verdict(make_problem({"mae": BAD, "gar": GOOD}))


def test_one_fold_has_no_p_value() -> None:
    text = verdict(make_problem({"mae": [2.0], "gar": [1.0]}))
    assert (
        text
        == "No clear winner on Table: GAR has the lowest test MAE, 1.000; then MAE with 2.000; there are too few folds to tell."
    )


def test_without_gar_rival_or_numbers() -> None:
    assert verdict(make_problem({"mae": BAD, "mse": GOOD})).endswith("1.000, on Table; GAR was not compared.")
    assert verdict(make_problem({"gar": GOOD})) == "GAR reaches a test MAE of 1.000 on Table; nothing was compared with it."
    assert verdict(make_problem({"gar": [math.nan], "mae": []})) == "No method has a test MAE on Table."
    assert gain_table(make_problem({"mae": GOOD, "mse": BAD})) is None
    assert score_table(make_problem({"mae": GOOD, "gar": [math.nan]})).rows[-1][0].name == "gar"


def test_folds_that_one_method_lacks_are_left_out_of_a_comparison() -> None:
    problem = make_problem({"mae": [2.0, 4.0, math.nan], "gar": [1.0, 2.0, 9.0]})
    assert compare_methods(problem, "mae", problem.methods[0]).gain == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("outcomes", "ending"),
    [
        ([(GOOD, BAD), (GOOD, BAD)], "GAR is clearly best on A (GAR 1.000, MAE 4.000), B (GAR 1.000, MAE 4.000)."),
        (
            [(GOOD, BAD), (GOOD, [1.2, 0.9, 1.1, 1.0])],
            "GAR is clearly best on A (GAR 1.000, MAE 4.000); "
            "GAR is ahead, but chance may explain it, on B (GAR 1.000, MAE 1.050).",
        ),
        (
            [(BAD, GOOD), (GOOD, BAD)],
            "GAR is clearly best on B (GAR 1.000, MAE 4.000); GAR is not best on A (MAE 1.000, GAR 4.000).",
        ),
    ],
)
def test_several_problems_in_one_sentence(outcomes: list[tuple[list[float], list[float]]], ending: str) -> None:
    problems = [make_problem({"gar": gar, "mae": mae}, title=title) for (gar, mae), title in zip(outcomes, "AB", strict=True)]
    assert headline(results_of(*problems)) == ending


def test_a_linear_model_that_no_loss_beats_stands_in_the_sentence() -> None:
    problem = make_problem({"gar": FAIR, "mae": BAD}, title="A")
    problem = replace(problem, references=[reference("ridge", GOOD)])
    assert headline(results_of(problem, problem)).startswith("No loss beats a linear model on A (Ridge 1.000, GAR 2.000)")


def reference(name: str, values: list[float]) -> Method:
    shared: dict[str, Any] = {"parameter": None, "models": 1, "failed": 0, "seconds": 1.0}
    return Method(loss=name, family="reference", title=name.title(), scores={"mae": values}, **shared)


def test_what_no_loss_beats_is_the_verdict_and_there_are_no_percentages() -> None:
    scores: dict[str | tuple[str, str], list[float]] = {"mae": FAIR, "gar": [2.0, 2.0, 2.0, 2.02]}
    nothing = make_problem(scores, references=[reference("median", [2.01] * 4), reference("ridge", BAD)])
    assert verdict(nothing) == (
        "Nothing was learned on Table: no loss beats a constant. MAE has the lowest test MAE, 2.000; "
        "the columns say little about y."
    )
    linear = make_problem(scores, references=[reference("median", BAD), reference("ridge", GOOD)])
    assert verdict(linear) == ("No loss beats a linear model on Table: Ridge has 1.000; MAE has the lowest test MAE, 2.000.")
    for problem in (nothing, linear):
        assert gain_table(problem) is None
        assert "%" not in verdict(problem)
        assert [method.family for method, _ in score_table(problem).rows] == ["mlp", "mlp", "reference", "reference"]
        assert all(cell.text == NOTHING for line in overview(results_of(problem)) for cell in line["cells"])
    beaten = make_problem(scores, references=[reference("median", BAD), reference("ridge", [2.1] * 4)])
    assert verdict(beaten).startswith("No clear winner")
    both = headline(results_of(nothing, make_problem({"gar": GOOD, "mae": BAD}, title="A")))
    assert both == "GAR is clearly best on A (GAR 1.000, MAE 4.000); nothing was learned on Table (Median 2.010, MAE 2.000)."


def test_correlations_near_zero_have_no_percentages() -> None:
    problem = make_problem({"gar": GOOD, "mae": BAD})
    near = [replace(one, scores={"pearson": [value] * 4}) for one, value in zip(problem.methods, (0.03, 0.01), strict=True)]
    problem = replace(problem, methods=near, selected_by="pearson")
    table = gain_table(problem)
    assert table is not None
    assert [cell.text for _, cells in table.rows for cell in cells] == ["+0.020"]
    assert "%" not in verdict(problem)


def test_what_is_saved_is_told_with_its_score() -> None:
    problem = make_problem({"gar": GOOD, "mae": FAIR}, saved="mae")
    assert saved_text(problem).startswith("Saved is MAE, the mean of the models of 4 folds: it was best on validation rows")
    scored = replace(problem, methods=[replace(one, ensemble={"mae": 0.9}) for one in problem.methods])
    assert saved_text(scored).endswith(f"On the test rows it has MAE{NO_BREAK}0.900.")
    assert saved_text(replace(problem, saved=None)) == ""


def test_several_problems_without_gar() -> None:
    assert "GAR has no rival" in headline(results_of(make_problem({"mae": GOOD}), make_problem({"gar": GOOD})))


def test_each_family_is_compared_with_its_own_baseline_and_the_best_of_all() -> None:
    problem = make_problem({"mae": FAIR, "gar": BAD, ("mae", "xgboost"): BAD, ("gar", "xgboost"): GOOD})
    text = verdict(problem)
    assert text.startswith("GAR wins on Table: GAR-XGBOOST has the lowest test MAE, 1.000, 50.0 % less than MAE with 2.000 (p")
    table = gain_table(problem)
    assert table is not None
    assert [heading.title for heading in table.headings] == ["GAR against", "GAR by", "MAE"]
    rows = [(cells[0].text, rival.name, cells[1].text) for rival, cells in table.rows]
    assert rows == [
        ("GAR-XGBOOST", "mae-xgboost", "+75.0 %"),
        ("GAR-XGBOOST", "mae", "+50.0 %"),
        ("GAR", "mae", "-100.0 %"),
    ]
    assert all(("rival" in cells[1].mark) == (rival.name == "mae") for rival, cells in table.rows)


def test_gar_of_several_families_without_rival() -> None:
    text = verdict(make_problem({"gar": FAIR, ("gar", "xgboost"): GOOD}))
    assert text == "GAR-XGBOOST reaches a test MAE of 1.000 on Table; nothing was compared with it."
    assert gain_table(make_problem({"gar": FAIR, ("gar", "xgboost"): GOOD})) is None


def test_targets_have_scores_of_their_own_in_their_units() -> None:
    """Errors of 1 euro and of 100 metres: their mean says nothing, and each target has its own winner."""
    problem = make_problem({"mae": FAIR, "gar": GOOD})
    mae, gar = problem.methods
    mae = replace(mae, by_target=[{"mae": 0.5}, {"mae": 400.0}])
    gar = replace(gar, by_target=[{"mae": 1.0}, {"mae": 100.0}])
    found = target_table(replace(problem, targets=("price", "distance"), methods=[mae, gar]))
    assert found is not None
    assert [heading.title for heading in found.headings] == ["Method", "MAE of price", "MAE of distance"]
    cells = {method.name: [(cell.text, cell.mark) for cell in cells] for method, cells in found.rows}
    assert cells == {"gar": [("1.000", ""), ("100.0", "best")], "mae": [("0.500", "best"), ("400.0", "")]}
    assert target_table(problem) is None
