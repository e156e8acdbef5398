"""What is said about numbers is true, whoever wins."""

import itertools
import math
import re

import numpy as np
import pytest

from gar import metrics
from gar.app.report import Results
from gar.app.report.style import _LOOKS, _OTHERS, METRICS, Look, looks_of
from gar.app.report.summary import best_rival, champion_of, duel, headline, ranking, score, verdict
from gar.app.report.tables import duel_table, score_table
from gar.statistics import corrected_resampled_t, two_sample_t
from tests.app.report.test_results import make_problem

pytestmark = pytest.mark.xdist_group("report")
GOOD, FAIR, BAD = [1.0, 1.1, 0.9, 1.0], [2.0, 2.1, 1.9, 2.0], [4.0, 4.1, 3.9, 4.0]


def results_of(*problems: object) -> Results:
    return Results(command="", created="", gar="", problems=problems)  # type: ignore[arg-type]


def test_metrics_are_those_of_the_library() -> None:
    assert {name: larger for name, (_, larger) in METRICS.items()} == metrics.LARGER_IS_BETTER
    assert tuple(METRICS) == metrics.METRICS


def test_numbers_of_a_real_comparison(results: Results) -> None:
    problem = results.problems[0]
    for method in problem.methods:
        values = np.array(method.scores["pearson"])
        assert score(method, "pearson").mean == pytest.approx(values.mean())
        assert score(method, "pearson").sd == pytest.approx(values.std())
    order = ranking(problem.methods, "pearson")
    assert np.diff([score(method, "pearson").mean for method in order]).max() <= 0
    champion, rival = champion_of(problem), best_rival(problem, "mae")
    assert champion is not None
    assert rival is not None
    fight = duel(problem, "mae", rival)
    mine, theirs = champion.scores["mae"], rival.scores["mae"]
    assert fight.gain == pytest.approx(100 * (np.mean(theirs) - np.mean(mine)) / np.mean(theirs))
    assert fight.p == two_sample_t(mine, theirs)
    assert fight.p_corrected == corrected_resampled_t(mine, theirs, train_rows=236, test_rows=88)


def test_a_win_is_told() -> None:
    text = verdict(make_problem({"mae": BAD, "mse": FAIR, "gar": GOOD}))
    assert text.startswith("GAR has the lowest test MAE on Table: 1.000 (0.071), 75.0 % better than MAE (corrected p < 0.001)")
    assert "and 50.0 % better than the best rival, MSE (corrected p < 0.001)" in text


def test_a_defeat_is_told() -> None:
    text = verdict(make_problem({"mae": GOOD, "mse": FAIR, "gar": BAD}))
    assert text == (
        "GAR does not win: MAE has the lowest test MAE on Table, 1.000 (0.071); GAR is number 3 of 3 with 4.000 (0.071), "
        "300.0 % worse than MAE (corrected p < 0.001)."
    )


def test_luck_is_called_luck() -> None:
    near = [1.05, 0.95, 1.1, 1.0]
    assert "chance may explain it" in verdict(make_problem({"mae": near, "gar": GOOD}))
    assert "chance" not in verdict(make_problem({"mae": BAD, "gar": GOOD}))


def test_one_fold_has_no_p_value() -> None:
    text = verdict(make_problem({"mae": [2.0], "gar": [1.0]}))
    assert text == "GAR has the lowest test MAE on Table: 1.000 (0.000), 50.0 % better than the best rival, MAE."


def test_without_champion_rival_or_numbers() -> None:
    assert verdict(make_problem({"mae": BAD, "mse": GOOD})).endswith("1.000 (0.071); there is no result of GAR.")
    assert verdict(make_problem({"gar": GOOD})) == "GAR reaches a test MAE of 1.000 (0.071) on Table; it met no rival."
    assert verdict(make_problem({"gar": [math.nan], "mae": []})) == "No method has a test MAE on Table."
    assert duel_table(make_problem({"mae": GOOD, "mse": BAD})) is None
    assert score_table(make_problem({"mae": GOOD, "gar": [math.nan]})).rows[-1].method.name == "gar"


def test_folds_that_one_method_lacks_are_left_out_of_a_duel() -> None:
    problem = make_problem({"mae": [2.0, 4.0, math.nan], "gar": [1.0, 2.0, 9.0]})
    assert duel(problem, "mae", problem.methods[0]).gain == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([(GOOD, BAD), (GOOD, BAD)], "on 2 of 2 problems, on all of these by more than chance explains."),
        ([(GOOD, BAD), (GOOD, [1.2, 0.9, 1.1, 1.0])], "on 2 of 2 problems, on 1 of these by more than chance explains."),
        ([(GOOD, BAD), (BAD, GOOD)], "on 1 of 2 problems, on it by more than chance explains; it does not win on B (to MAE)."),
        ([(BAD, GOOD), (BAD, GOOD)], "on 0 of 2 problems; it does not win on A (to MAE), B (to MAE)."),
    ],
)
def test_several_problems_in_one_sentence(outcomes: list[tuple[list[float], list[float]]], said: str) -> None:
    problems = [make_problem({"gar": gar, "mae": mae}, title=title) for (gar, mae), title in zip(outcomes, "AB", strict=True)]
    assert headline(results_of(*problems)).endswith(said)


def test_several_problems_without_champion() -> None:
    assert "GAR met no rival" in headline(results_of(make_problem({"mae": GOOD}), make_problem({"gar": GOOD})))


def test_losses_keep_their_look_and_others_get_one_each() -> None:
    names = [look.key for look in _LOOKS] + [f"other model {number}" for number in range(6)]
    looks = looks_of(names)
    assert looks["gar"] == _LOOKS[0]
    assert len({look.key for look in looks.values()}) == len(names)
    assert looks_of(["x", "gar"])["gar"] == looks["gar"]
    assert all(re.fullmatch(r"[a-z0-9_]+", look.key) for look in looks.values())
    assert len({look.dash for look in _LOOKS}) >= len(_LOOKS) - 1, "only the champion and the baseline are drawn in one stroke"


# Colours as people with normal sight, without green and without red see them (Machado and others, 2009), in linear light.
SIGHT = {
    "normal": np.eye(3),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
}


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(to_xyz @ np.clip(light, 0, 1) / [0.9505, 1, 1.089], 1e-4, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    lights = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) + 0.05 for colour in (one, other))
    return lights[1] / lights[0]


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("side", ["light", "dark"])
def test_colours_differ_for_every_reader(sight: str, side: str) -> None:
    seen = {look.key: lab(SIGHT[sight] @ linear(getattr(look, side))) for look in _LOOKS}
    apart = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in itertools.combinations(seen, 2)}
    assert min(distance for pair, distance in apart.items() if "gar" in pair) > 18
    assert min(apart.values()) > 5, "a difference that an eye notices"


@pytest.mark.parametrize("look", [*_LOOKS, *_OTHERS], ids=lambda look: look.key)
def test_lines_stand_out_from_the_paper(look: Look) -> None:
    assert contrast(look.light, "#ffffff") >= 2.9
    assert contrast(look.dark, "#15181d") >= 3.0


def test_each_family_is_held_against_its_own_baseline_and_the_best_of_all() -> None:
    problem = make_problem({"mae": FAIR, "gar": BAD, "mae-xgboost": BAD, "gar-xgboost": GOOD})
    text = verdict(problem)
    assert text.startswith("GAR-XGBOOST has the lowest test MAE on Table: 1.000 (0.071), 75.0 % better than MAE-XGBOOST")
    assert "and 50.0 % better than the best rival, MAE (" in text
    table = duel_table(problem)
    assert table is not None
    assert [column.title for column in table.columns] == ["GAR against", "GAR by", "MAE"]
    rows = [(row.cells[0].text, row.method.name, row.cells[1].text) for row in table.rows]
    assert rows == [
        ("GAR-XGBOOST", "mae-xgboost", "+75.0 %"),
        ("GAR-XGBOOST", "mae", "+50.0 %"),
        ("GAR", "mae", "-100.0 %"),
    ]
    assert all(("rival" in row.cells[1].mark) == (row.method.name == "mae") for row in table.rows)


def test_several_champions_without_rival() -> None:
    text = verdict(make_problem({"gar": FAIR, "gar-xgboost": GOOD}))
    assert text == "GAR-XGBOOST reaches a test MAE of 1.000 (0.071) on Table; it met no rival."
    assert duel_table(make_problem({"gar": FAIR, "gar-xgboost": GOOD})) is None


def test_trees_have_the_colour_of_their_loss_and_a_dash_of_their_family() -> None:
    looks = looks_of(["gar", "gar-xgboost", "gar-lightgbm", "mae-xgboost", "gar-<script>"])
    trees = [looks[name] for name in ("gar", "gar-xgboost", "gar-lightgbm")]
    assert {look.light for look in trees} == {looks["gar"].light}
    assert len({look.dash for look in trees}) == len({look.marker for look in trees}) == 3
    assert looks["mae-xgboost"].dash == looks["gar-xgboost"].dash
    assert all(look.is_champion for look in trees)
    assert looks["gar-<script>"].key == "other0"
