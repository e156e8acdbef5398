"""Results as a file: they are read back as written, and errors name the wrong value."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gar.app.report import Choice, Curve, Method, Predictions, Problem, Results, Truth
from gar.errors import InputError
from gar.registry import NETWORKS
from tests.app.report.example import hostile

pytestmark = pytest.mark.xdist_group("report")


def test_what_is_written_is_read_again(results: Results, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(results.to_json())
    again = Results.read(file)
    assert again == Results.read(tmp_path)
    assert again.to_json() == results.to_json()
    assert again.problems[0].methods[0].scores["mae"] == results.problems[0].methods[0].scores["mae"]
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
    problem = replace(
        results.problems[0], methods=[odd], settings={"array": np.arange(2), "number": np.float32(0.5), "set": {1}, "top": math.inf}
    )
    text = replace(results, problems=[problem]).to_json()
    assert "NaN" not in text
    again = Results.from_json(text).problems[0]
    assert math.isnan(again.methods[0].learning["mae"][0])
    assert again.methods[0].chosen[0].parameter == math.inf
    assert again.settings == {"array": [0, 1], "number": 0.5, "set": [1], "top": "Infinity"}


def test_settings_hold_data_only(results: Results) -> None:
    with pytest.raises(InputError, match=r"settings contain <object object .*use text, numbers"):
        replace(results.problems[0], settings={"loss": object()})


CHANGES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("problems",), "x", r"results.problems is 'x'; expected a valid array"),
    (("problems",), [], "without any problem"),
    (("format",), 99, "format 99"),
    (("format",), True, "results.format is True; expected a valid integer"),
    (("extra",), 1, "results.extra is unknown to this version; read the file with"),
    (("problems", 0, "rows"), 1.5, r"problems\[0\].rows is 1.5; expected a valid integer"),
    (("problems", 0, "selected_by"), "luck", "selected_by='luck' is not a metric; use one of mae, rmse"),
    (("problems", 0, "methods"), [], "expected at least one"),
    (("problems", 0, "methods", 1, "loss"), "mae", "each name once"),
    (("problems", 0, "methods", 1, "seconds"), "soon", r"methods\[1\].seconds is 'soon'; expected a valid number"),
    (("problems", 0, "methods", 1, "seconds"), 10**400, r"methods\[1\].seconds is 1000+\.\.\.; expected a valid number"),
    (("problems", 0, "methods", 1, "scores"), [1], r"methods\[1\].scores is \[1\]; expected an object"),
    (("problems", 0, "methods", 1, "predictions", "true"), [[1.0]], "equally many true and predicted"),
    (("problems", 1, "methods", 1, "curve", "sd"), [1.0], "means and 1 deviations"),
    (("problems", 1, "truth", "trained", 0), 1, r"trained\[0\] is 1; expected a valid boolean"),
    (("problems", 1, "truth"), None, "its truth 0"),
]


@pytest.mark.parametrize(("where", "value", "message"), CHANGES, ids=[".".join(map(str, where)) for where, _, _ in CHANGES])
def test_errors_name_the_wrong_value(results: Results, where: tuple[Any, ...], value: Any, message: str) -> None:
    data = json.loads(results.to_json())
    inner = data
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    with pytest.raises(InputError, match=message):
        Results.from_json(json.dumps(data))


def test_a_missing_field_is_named(results: Results) -> None:
    data = json.loads(results.to_json())
    del data["problems"][0]["methods"][2]["scores"]
    with pytest.raises(InputError, match=r"results.problems\[0\].methods\[2\].scores is missing; expected"):
        Results.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", b"\xff\xfe", "[" * 100_000, '{"a": 1e999}'])
def test_other_texts_are_refused(text: str | bytes) -> None:
    with pytest.raises(InputError, match=r"expected|unknown"):
        Results.from_json(text)


def test_files_are_named_in_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"results.json cannot be read \(No such file"):
        Results.read(tmp_path)
    (tmp_path / "other.json").write_text("no")
    with pytest.raises(InputError, match=r"other.json: this is not JSON"):
        Results.read(tmp_path / "other.json")


def test_parts_that_do_not_fit_are_refused_when_made() -> None:
    with pytest.raises(InputError, match="equally many"):
        Predictions(true=[[1.0]], predicted=[[1.0], [2.0]])
    with pytest.raises(InputError, match="above zero"):
        Truth(x=[], y=[], trained=[])
    with pytest.raises(InputError, match="2 means"):
        Curve(mean=[1.0, 2.0], sd=[1.0])


def make_problem(scores: Mapping[str | tuple[str, str], list[float]], **options: Any) -> Problem:
    """Return a problem with nothing but scores by MAE; a method is a loss, or a pair of loss and family."""
    named = {(name, NETWORKS) if isinstance(name, str) else name: values for name, values in scores.items()}
    shared: dict[str, Any] = {"parameter": None, "models": 1, "failed": 0, "seconds": 1.0}
    methods = [
        Method(loss=loss, family=family, title=loss.upper(), scores={"mae": values}, **shared)
        for (loss, family), values in named.items()
    ]
    methods = [replace(one, title=one.name.upper()) for one in methods]
    given: dict[str, Any] = {"title": "Table", "train_rows": 80, "test_rows": 20} | options
    return Problem(
        name="t", source="", rows=100, features=1, targets=["y"], selected_by="mae", settings={}, methods=methods, **given
    )
