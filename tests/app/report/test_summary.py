"""Sentences and tables report the numbers correctly, whichever method is best."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_ind

from gar.app.report import Results
from gar.app.report.summary import (
    best_rival,
    compare_methods,
    gain_table,
    headline,
    method_of_interest,
    ranking,
    score,
    score_table,
    verdict,
)
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


def test_a_win_is_reported() -> None:
    text = verdict(make_problem({"mae": BAD, "mse": FAIR, "gar": GOOD}))
    assert text.startswith("GAR has the lowest test MAE on Table: 1.000 (0.071), 75.0 % better than MAE (corrected p < 0.001)")
    assert "and 50.0 % better than the best rival, MSE (corrected p < 0.001)" in text


def test_a_defeat_is_reported() -> None:
    text = verdict(make_problem({"mae": GOOD, "mse": FAIR, "gar": BAD}))
    assert text == (
        "GAR does not win: MAE has the lowest test MAE on Table, 1.000 (0.071); GAR is number 3 of 3 with 4.000 (0.071), "
        "300.0 % worse than MAE (corrected p < 0.001)."
    )


def test_chance_is_mentioned_where_it_may_explain_the_result() -> None:
    near = [1.05, 0.95, 1.1, 1.0]
    assert "chance may explain it" in verdict(make_problem({"mae": near, "gar": GOOD}))
    assert "chance" not in verdict(make_problem({"mae": BAD, "gar": GOOD}))


def test_one_fold_has_no_p_value() -> None:
    text = verdict(make_problem({"mae": [2.0], "gar": [1.0]}))
    assert text == "GAR has the lowest test MAE on Table: 1.000 (0.000), 50.0 % better than the best rival, MAE."


def test_without_gar_rival_or_numbers() -> None:
    assert verdict(make_problem({"mae": BAD, "mse": GOOD})).endswith("1.000 (0.071); there is no result of GAR.")
    assert verdict(make_problem({"gar": GOOD})) == "GAR reaches a test MAE of 1.000 (0.071) on Table; it has no rival."
    assert verdict(make_problem({"gar": [math.nan], "mae": []})) == "No method has a test MAE on Table."
    assert gain_table(make_problem({"mae": GOOD, "mse": BAD})) is None
    assert score_table(make_problem({"mae": GOOD, "gar": [math.nan]})).rows[-1][0].name == "gar"


def test_folds_that_one_method_lacks_are_left_out_of_a_comparison() -> None:
    problem = make_problem({"mae": [2.0, 4.0, math.nan], "gar": [1.0, 2.0, 9.0]})
    assert compare_methods(problem, "mae", problem.methods[0]).gain == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("outcomes", "ending"),
    [
        ([(GOOD, BAD), (GOOD, BAD)], "on 2 of 2 problems, on all of these by more than chance explains."),
        ([(GOOD, BAD), (GOOD, [1.2, 0.9, 1.1, 1.0])], "on 2 of 2 problems, on 1 of these by more than chance explains."),
        ([(GOOD, BAD), (BAD, GOOD)], "on 1 of 2 problems, on it by more than chance explains; it does not win on B (to MAE)."),
        ([(BAD, GOOD), (BAD, GOOD)], "on 0 of 2 problems; it does not win on A (to MAE), B (to MAE)."),
    ],
)
def test_several_problems_in_one_sentence(outcomes: list[tuple[list[float], list[float]]], ending: str) -> None:
    problems = [make_problem({"gar": gar, "mae": mae}, title=title) for (gar, mae), title in zip(outcomes, "AB", strict=True)]
    assert headline(results_of(*problems)).endswith(ending)


def test_several_problems_without_gar() -> None:
    assert "GAR has no rival" in headline(results_of(make_problem({"mae": GOOD}), make_problem({"gar": GOOD})))


def test_each_family_is_compared_with_its_own_baseline_and_the_best_of_all() -> None:
    problem = make_problem({"mae": FAIR, "gar": BAD, ("mae", "xgboost"): BAD, ("gar", "xgboost"): GOOD})
    text = verdict(problem)
    assert text.startswith("GAR-XGBOOST has the lowest test MAE on Table: 1.000 (0.071), 75.0 % better than MAE-XGBOOST")
    assert "and 50.0 % better than the best rival, MAE (" in text
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
    assert text == "GAR-XGBOOST reaches a test MAE of 1.000 (0.071) on Table; it has no rival."
    assert gain_table(make_problem({"gar": FAIR, ("gar", "xgboost"): GOOD})) is None
