"""``gar compare --pairs-within``: rows are compared within days or persons only, and scored there, with every loss in one table."""

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner, Result
from rich.console import Console

from gar.app.commands.compare import compare
from gar.app.commands.predict import predict
from gar.app.compare import Compared, Options, compare_table, source_of_file, source_of_frame
from gar.app.compare.source import prepare
from gar.app.models import load_model
from gar.app.report import write_report
from gar.app.report.results import Results
from gar.app.report.summary import verdict
from gar.app.report.terminal import print_results
from gar.errors import InputError
from gar.group_metrics import within_groups
from gar.search import RunContext

TABLES = Path(os.environ.get("GAR_DATA_HOME", "")) / "tables"
QUICK = Options(
    losses=("mae", "gar"),
    epochs=30,
    learning_rates=(2e-2,),
    weight_decays=(1e-2,),
    hidden_sizes=(16,),
    folds=2,
    metric="pearson",
    parameters={"gar": (1.0,)},
)


def days(count: int = 60, rows: int = 10) -> pd.DataFrame:
    """On every day a shock that no feature knows moves all labels, ten times as strongly as the features do."""
    generator = np.random.default_rng(0)
    day = np.repeat(np.arange(count), rows)
    x = generator.normal(size=(count * rows, 3))
    y = x @ [1.0, -1.0, 0.5] + 0.3 * generator.normal(size=len(x)) + 15 * generator.normal(size=count)[day]
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "day": [f"day {number}" for number in day], "y": y})


@pytest.fixture(scope="module")
def found() -> Compared:
    return compare_table(source_of_frame(days(), targets=["y"], pairs_within="day"), QUICK, RunContext())


def test_pairs_within_days_find_what_the_shocks_hide(found: Compared) -> None:
    mae, gar = found.problem.methods
    assert np.mean(gar.scores["pearson"]) > 0.9 > 0.75 > np.mean(mae.scores["pearson"])
    assert found.problem.saved == "gar"
    assert found.problem.pairs_within == "day"
    assert found.problem.features == 3
    assert "up to 8 rows of a group together" in str(found.problem.settings["split"])
    assert verdict(found.problem).startswith("No clear winner on table: GAR has the highest test Pearson within day")
    assert any(note.startswith("MAE: trained and tuned on all rows") for note in found.problem.notes)


def test_scores_are_those_within_groups_of_the_test_rows(found: Compared) -> None:
    """By the saved model's own predictions, and by hand for each day."""
    prepared = prepare(source_of_frame(days(), targets=["y"], pairs_within="day"), QUICK)
    test, method = prepared.test, found.problem.methods[1]
    assert found.model is not None
    assert prepared.source.pairs is not None
    predicted, labels = found.model.predict(prepared.source.features.iloc[test]), prepared.source.labels[test]
    groups = prepared.source.pairs[test]
    expected = within_groups(torch.from_numpy(predicted), torch.from_numpy(labels), torch.from_numpy(groups))
    for name, value in expected.items():
        assert method.within[name] == pytest.approx(float(value))
    by_day = [np.corrcoef(predicted[own, 0], labels[own, 0])[0, 1] for day in set(groups) if (own := groups == day).sum() > 1]
    assert method.ensemble["pearson"] == pytest.approx(np.mean(by_day))
    assert method.within["pearson_of_all_rows"] == pytest.approx(np.corrcoef(predicted[:, 0], labels[:, 0])[0, 1])
    assert method.ensemble["mae"] == pytest.approx(np.abs(predicted - labels).mean())


def test_report_and_terminal_name_the_groups(found: Compared, tmp_path: Path) -> None:
    results = Results(command="gar compare", created="now", gar="0", problems=[found.problem])
    page = write_report(results, tmp_path).read_text()
    assert "Agreement within groups of day" in page
    assert "Pearson within day" in page
    assert json.loads((tmp_path / "results.json").read_text())["problems"][0]["methods"][1]["within"]["kling_gupta"] is not None
    assert Results.read(tmp_path).problems[0].methods[1].within == found.problem.methods[1].within
    out = io.StringIO()
    print_results(results, Console(file=out, width=80))
    assert all(len(line) <= 80 for line in out.getvalue().splitlines())
    for text in ("Spearman within day", "CCC", "NSE", "KGE", "test Pearson within day", *(f"{v:.3f}" for v in results_of(found))):
        assert text in " ".join(out.getvalue().split()), text


def results_of(found: Compared) -> list[float]:
    return [float(value) for method in found.problem.methods for value in method.within.values() if abs(value) < 100]


def run(command: click.Command, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


SMALL = ("-t", "y", "--losses", "gar", "--epochs", "2", "--hidden-sizes", "8", "--folds", "2", "--workers", "1")


def test_the_command_plans_trains_and_predict_scores_within_groups(tmp_path: Path) -> None:
    table = tmp_path / "days.csv"
    days(30, 6).to_csv(table, index=False)
    arguments = (str(table), *SMALL, "--pairs-within", "day", "--out", str(tmp_path / "out"))
    planned = run(compare, *arguments, "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "rows are compared within 30 groups of day" in planned.output
    assert not (tmp_path / "out").exists()
    assert run(compare, *arguments, "--quiet").exit_code == 0
    (problem,) = Results.read(tmp_path / "out").problems
    assert problem.selected_by == "pearson"
    source = source_of_file(table, targets=["y"], pairs_within="day")
    test = prepare(source, replace(QUICK, metric="pearson")).test
    days(30, 6).iloc[test].to_csv(tmp_path / "test.csv", index=False)
    scored = run(predict, str(tmp_path / "out"), str(tmp_path / "test.csv"))
    (method,) = problem.methods
    assert f"Pearson within day {method.ensemble['pearson']:.3g}" in scored.stderr
    assert load_model(tmp_path / "out" / "model").about["pairs_within"] == "day"
    days(30, 6).drop(columns="day").to_csv(tmp_path / "test.csv", index=False)
    assert "Pearson 0" in run(predict, str(tmp_path / "out"), str(tmp_path / "test.csv")).stderr.replace("-", "")


@pytest.mark.parametrize(
    ("changes", "column", "message"),
    [
        ({}, "dya", "pairs_within 'dya' is not a column of the table; did you mean 'day'?"),
        ({}, "y", "column 'y' is a target and cannot be left out, group, pair or order rows"),
        ({"day": "Monday"}, "day", "pairs_within 'day' has the same value in all rows"),
        (
            {"day": np.arange(600)},
            "day",
            "every value of pairs_within 'day' occurs in one row only, so there is nothing to compare",
        ),
        ({"day": [None, *range(599)]}, "day", "pairs_within 'day' is empty in 1 rows; fill it, or remove these rows"),
        ({"y": np.repeat(np.arange(60), 10)}, "day", "every value of pairs_within 'day' has rows of one label only"),
    ],
)
def test_groups_without_pairs_are_explained(changes: dict[str, object], column: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        prepare(source_of_frame(days().assign(**changes), targets=["y"], pairs_within=column), QUICK)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"families": ("mlp", "lightgbm")}, "cannot be combined with --models lightgbm: only networks .* GARBoostRegressor"),
        ({"preset": "paper"}, "cannot be combined with --preset paper: only networks .* leave --preset paper out"),
    ],
)
def test_kinds_of_models_that_cannot_compare_within_groups_refuse(changes: dict[str, object], message: str) -> None:
    pytest.importorskip("lightgbm")
    source = source_of_frame(days(), targets=["y"], pairs_within="day")
    with pytest.raises(InputError, match=message):
        compare_table(source, replace(QUICK, **changes), RunContext())  # type: ignore[arg-type]


def test_split_and_pairs_are_two_things() -> None:
    """Whole persons are tested, and days are compared; neither column is a feature."""
    frame = days().assign(person=np.arange(600) // 20)
    prepared = prepare(source_of_frame(frame, targets=["y"], group="person", pairs_within="day"), QUICK)
    train, valid, test = (set(frame["person"].iloc[part]) for part in prepared.parts[0])
    assert train.isdisjoint(valid | test)
    assert list(prepared.source.features.columns) == ["a", "b", "c"]


@pytest.mark.skipif(not TABLES.is_dir(), reason="GAR_DATA_HOME has no folder tables")
def test_wages_are_compared_within_persons() -> None:
    frame = pd.read_csv(TABLES / "nlswork_wages.csv.gz")
    persons = np.random.default_rng(0).choice(frame["idcode"].unique(), 150, replace=False)
    frame = frame[frame["idcode"].isin(persons)].reset_index(drop=True)
    source = source_of_frame(frame, targets=["target"], group="idcode", pairs_within="idcode")
    found = compare_table(source, replace(QUICK, losses=("mae", "gar"), epochs=10), RunContext())
    mae, gar = found.problem.methods
    assert "idcode" not in source.features.columns
    assert found.problem.settings["split"] == "whole groups"
    assert all(np.isfinite(list(method.within.values())).all() for method in (mae, gar))
    assert gar.within["pearson"] > 0.1
