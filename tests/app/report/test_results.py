"""Results as a file: what is written can be read, and what is wrong in a file is named."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gar.app.report import Choice, Curve, Method, Predictions, Problem, Results, Truth
from gar.errors import InputError
from tests.app.report.example import hostile

pytestmark = pytest.mark.xdist_group("report")


def test_what_is_written_is_read_again(results: Results, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(results.to_json())
    again = Results.read(file)
    assert again == Results.read(tmp_path)
    assert again.to_json() == results.to_json()
    assert again.problems[0].methods[0].scores["mae"] == tuple(results.problems[0].methods[0].scores["mae"])
    assert again.problems[1].truth is not None
    assert type(again.problems[0].methods[0].chosen[0]) is Choice


def test_strange_names_survive(results: Results) -> None:
    strange = hostile(results)
    assert Results.from_json(strange.to_json()).problems[0].title == strange.problems[0].title


def test_numbers_that_json_lacks(results: Results) -> None:
    method = results.problems[0].methods[0]
    odd = replace(
        method,
        learning={"mae": [math.nan, 1.0]},
        chosen=[Choice(fold=0, learning_rate=0.1, weight_decay=0.0, parameter=math.inf, epoch=3)],
    )
    problem = replace(results.problems[0], methods=[odd], settings={"array": np.arange(2), "number": np.float32(0.5), "set": {1}})
    text = replace(results, problems=[problem]).to_json()
    assert "NaN" not in text
    again = Results.from_json(text).problems[0]
    assert math.isnan(again.methods[0].learning["mae"][0])
    assert again.methods[0].chosen[0].parameter == math.inf
    assert again.settings == {"array": [0, 1], "number": 0.5, "set": [1]}


def test_settings_hold_data_only(results: Results) -> None:
    bad = replace(results, problems=[replace(results.problems[0], settings={"loss": object()})])
    with pytest.raises(InputError, match=r"problems\[0\].settings.loss is <object"):
        bad.to_json()


CHANGES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("problems",), "x", r"results.problems is 'x'; expected a list"),
    (("problems",), [], "without any problem"),
    (("format",), 99, "format 99"),
    (("format",), True, "format is True; expected a whole number"),
    (("extra",), 1, "has 'extra', which this version does not know"),
    (("problems", 0, "rows"), 1.5, r"problems\[0\].rows is 1.5; expected a whole number"),
    (("problems", 0, "judged_by"), "luck", "judged_by='luck' is no metric; use one of mae, rmse"),
    (("problems", 0, "methods"), [], "expected at least one"),
    (("problems", 0, "methods", 1, "name"), "mae", "each name once"),
    (("problems", 0, "methods", 1, "seconds"), "soon", r"methods\[1\].seconds is 'soon'; expected a number"),
    (("problems", 0, "methods", 1, "seconds"), 10**400, "that a float can hold"),
    (("problems", 0, "methods", 1, "scores"), [1], r"methods\[1\].scores is \[1\]; expected an object"),
    (("problems", 0, "methods", 1, "predictions", "true"), [[1.0]], "as many true as predicted"),
    (("problems", 1, "methods", 1, "curve", "sd"), [1.0], "means and 1 deviations"),
    (("problems", 1, "truth", "trained", 0), 1, "expected true or false"),
    (("problems", 1, "truth"), None, "its truth 0"),
]


@pytest.mark.parametrize(("place", "value", "message"), CHANGES, ids=[f"{'.'.join(map(str, place))}" for place, _, _ in CHANGES])
def test_what_is_wrong_is_named(results: Results, place: tuple[Any, ...], value: Any, message: str) -> None:
    data = json.loads(results.to_json())
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(InputError, match=message):
        Results.from_json(json.dumps(data))


def test_a_missing_field_is_named(results: Results) -> None:
    data = json.loads(results.to_json())
    del data["problems"][0]["methods"][2]["scores"]
    with pytest.raises(InputError, match=r"results.problems\[0\].methods\[2\] has no 'scores'"):
        Results.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", b"\xff\xfe", "[" * 100_000, '{"a": 1e999}'])
def test_other_texts_are_refused(text: str | bytes) -> None:
    with pytest.raises(InputError, match=r"expected|does not know"):
        Results.from_json(text)


def test_files_are_named_in_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"results.json cannot be read \(No such file"):
        Results.read(tmp_path)
    (tmp_path / "other.json").write_text("no")
    with pytest.raises(InputError, match=r"other.json: this is not JSON"):
        Results.read(tmp_path / "other.json")


def test_parts_that_do_not_fit_are_refused_when_made() -> None:
    with pytest.raises(InputError, match="as many"):
        Predictions(true=[[1.0]], predicted=[[1.0], [2.0]])
    with pytest.raises(InputError, match="above zero"):
        Truth(x=[], y=[], trained=[])
    with pytest.raises(InputError, match="2 means"):
        Curve(mean=[1.0, 2.0], sd=[1.0])


def make_problem(scores: dict[str, list[float]], **options: Any) -> Problem:
    """A problem of bare scores by MAE, for questions of who wins."""
    methods = [
        Method(loss=name, title=name.upper(), parameter=None, models=1, failed=0, seconds=1.0, scores={"mae": values})
        for name, values in scores.items()
    ]
    given: dict[str, Any] = {"title": "Table", "train_rows": 80, "test_rows": 20} | options
    return Problem(name="t", source="", rows=100, features=1, targets=["y"], judged_by="mae", settings={}, methods=methods, **given)
