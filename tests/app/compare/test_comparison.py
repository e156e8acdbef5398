"""A whole comparison on a real table: what is reported is what the search found, and what its folder holds."""

import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save

from gar import GARRegressorCV, metrics
from gar.app.compare import (
    Compared,
    NothingFinishedError,
    Options,
    Report,
    compare_and_report,
    compare_curve,
    compare_table,
    plan_problem,
    source_of_frame,
)
from gar.app.compare.source import prepare
from gar.app.models import TableModel, load_model
from gar.app.report.results import Results
from gar.errors import InputError
from gar.registry import LOSSES, METRICS, PAPER_LOSSES
from gar.search import RecordWarning, RunContext, search, select
from tests.app.compare.example import QUICK, compared, diabetes


@pytest.fixture(scope="module")
def found() -> Compared:
    return compared()


PAPER = replace(QUICK, preset="paper", folds=3, learning_rates=(1e-3, 1e-4))


@pytest.fixture(scope="module")
def paper() -> Compared:
    return compared(PAPER)


def test_a_row_of_networks_is_the_estimator_on_the_same_folds(found: Compared) -> None:
    """The estimator, called by hand, predicts the same; its folds' networks have the scores of the table."""
    prepared = prepare(source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"]), QUICK)
    x, y, test = prepared.source.features, prepared.source.labels[:, 0], prepared.test
    rest = np.setdiff1d(np.arange(len(y)), test)
    cv = [(np.searchsorted(rest, train), np.searchsorted(rest, valid)) for train, valid, _ in prepared.parts]
    chosen: dict[str, Any] = {
        "epochs": 6,
        "learning_rates": (2e-2, 3e-3),
        "weight_decays": (1e-3,),
        "hidden_sizes": (16, 8),
        "batch_sizes": (64,),
    }
    model = GARRegressorCV("gar", cv=cv, random_state=123, **chosen).fit(x.iloc[rest], y[rest])
    method = next(method for method in found.problem.methods if method.name == "gar")
    assert method.predictions is not None
    assert method.predictions.predicted[0] == pytest.approx(model.predict(x.iloc[test]).tolist())
    assert method.ensemble["mae"] == pytest.approx(np.abs(model.predict(x.iloc[test]) - y[test]).mean())
    assert method.ensemble["r2"] == pytest.approx(model.score(x.iloc[test], y[test]))
    assert {(one.fold, one.learning_rate, one.parameter) for one in method.chosen} == {
        (fold, params["learning_rate"], params["alpha"]) for fold, own in enumerate(model.fold_params_) for params in own
    }
    assert all(1 <= choice.epoch <= 6 for choice in method.chosen)


def test_scores_of_the_papers_preset_are_those_of_the_winners_by_validation(paper: Compared) -> None:
    """A search of its own gives the same scores."""
    prepared = prepare(source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"]), PAPER)
    data, models = prepared.folds[0], PAPER.models("gar", 3)
    settings = PAPER.settings("gar", features=data.x.shape[1], train_rows=min(len(part[0]) for part in prepared.parts))
    history = search(data, models, settings)
    method = next(method for method in paper.problem.methods if method.name == "gar")
    for metric in METRICS:
        assert list(method.scores[metric]) == select(history, models, metric).of("test", metric).tolist()
    best = select(history, models, "mae")
    assert [choice.epoch for choice in method.chosen] == (best.epoch + 1).tolist()
    assert [choice.parameter for choice in method.chosen] == models.parameter[best.model].tolist()  # type: ignore[index]
    assert method.learning["mae"] == pytest.approx(history.of("valid", "mae")[best.model].mean(0).tolist())


def test_a_fold_predicts_what_was_measured(found: Compared) -> None:
    """The networks that are kept are those of the chosen epoch: each alone has the test error that its fold reports."""
    assert isinstance(found.model, TableModel)
    method = next(method for method in found.problem.methods if method.name == found.problem.saved)
    prepared = prepare(source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"]), QUICK)
    test = prepared.parts[0][2]
    features, labels = prepared.source.features.iloc[test], prepared.source.labels[test]
    for fold in range(5):
        alone = torch.from_numpy(found.model.predict_fold(fold, features))
        assert float(metrics.mae(alone, torch.from_numpy(labels))) == pytest.approx(method.scores["mae"][fold], rel=1e-5)
    assert method.predictions is not None
    assert method.predictions.predicted[0] == pytest.approx(found.model.predict(features)[:, 0].tolist())
    assert method.predictions.true[0] == labels[:, 0].tolist()


def test_components_are_those_of_the_validation_rows(paper: Compared) -> None:
    for method in paper.problem.methods:
        assert set(method.components) == {"mae", "diff", "diffnorm"}
        assert all(len(values) == QUICK.epochs for values in method.components.values())
        correlation = [1 - value for value in method.components["diffnorm"]]
        assert correlation == pytest.approx(list(method.learning["pearson"]), abs=1e-4)


def test_the_problem_is_described(found: Compared) -> None:
    problem = found.problem
    assert (problem.rows, problem.features, problem.test_rows, problem.train_rows) == (442, 10, 88, 283)
    assert [method.name for method in problem.methods] == ["mae", "rnc", "gar"]
    assert problem.saved in LOSSES
    assert any("bmi" in note for note in problem.notes)
    assert problem.settings["hidden_sizes"] == [16, 8]
    assert [method.title for method in problem.references] == ["Constant (median)", "Linear (ridge)"]
    json.dumps(problem.settings, allow_nan=False)


def test_every_loss_has_as_many_models() -> None:
    counts = {name: len(Options(preset="paper").models(name, 5)) for name in LOSSES}
    assert set(counts.values()) == {225}


def test_sensitivity_holds_the_parameter(paper: Compared) -> None:
    by_name = {method.name: method for method in paper.problem.methods}
    assert [score.value for score in by_name["gar"].sensitivity] == [0.1, 1.0, 10.0]
    assert not by_name["mae"].sensitivity
    only = compared(replace(PAPER, losses=("gar",), parameters={"gar": (1.0,)})).problem.methods[0]
    assert dict(only.scores) == dict(by_name["gar"].sensitivity[1].scores)


def test_several_targets_with_gaps() -> None:
    found = compared(
        replace(QUICK, losses=("mae", "gar", "conr", "ranksim", "rnc"), epochs=2, folds=2),
        targets=["target,double"],
        drop=["clinic"],
    )
    assert found.problem.targets == ("target", "double")
    assert len(found.problem.methods) == 5
    predictions = found.problem.methods[0].predictions
    assert predictions is not None
    first, second = found.problem.methods[0].by_target
    assert second["mae"] == pytest.approx(np.abs(np.subtract(predictions.predicted[1], predictions.true[1])).mean())
    assert np.mean([first["mae"], second["mae"]]) == pytest.approx(found.problem.methods[0].ensemble["mae"])
    assert len(predictions.true[0]) == 88
    assert len(predictions.true[1]) < 88
    assert any("labels are missing" in note for note in found.problem.notes)


def test_rows_without_labels_are_left_out() -> None:
    found = compared(replace(QUICK, losses=("mae",)), targets=["double"], drop=["clinic", "target"])
    assert found.problem.rows == diabetes()["double"].notna().sum()
    assert any("rows have no label" in note for note in found.problem.notes)


def test_groups_are_kept_together() -> None:
    found = compared(replace(QUICK, losses=("mae",), folds=3), group="clinic", drop=["double"])
    assert found.problem.settings["split"] == "whole groups"
    assert len(found.problem.methods[0].scores["mae"]) == 3


def test_the_papers_preset() -> None:
    options = Options(preset="paper", losses=("gar",), epochs=2)
    settings = options.settings("gar", features=8, train_rows=300)
    assert (settings.optimizer, settings.batch_size, settings.drop_last) == ("sgd", 256, True)
    assert settings.hidden_sizes == (16, 32, 16, 8)
    assert len(options.models("gar", 5)) == 5 * 45
    assert prepare(source_of_frame(diabetes(), targets=["target"]), options).folds[0].folds[0].labels is None


def test_nothing_is_reported_if_every_loss_diverges() -> None:
    wild = replace(QUICK, losses=("mae", "mse"), learning_rates=(1e30,), preset="paper")
    with pytest.raises(NothingFinishedError, match=r"no loss was finished\. MAE was left out: all"):
        compared(wild)


def test_losses_that_were_finished_in_time_are_reported(found: Compared, tmp_path: Path) -> None:
    """Two losses are in the records; no time is left for the third."""
    source = source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])
    compare_table(source, replace(QUICK, losses=("mae", "gar")), RunContext(workers=1, records=tmp_path))
    part = compare_table(source, QUICK, RunContext(workers=1, records=tmp_path, deadline=0.0))
    assert part.is_late
    assert [method.name for method in part.problem.methods] == ["mae", "gar"]
    assert part.problem.methods[0].scores == found.problem.methods[0].scores
    assert part.problem.notes[-1] == "RNC was left out: the time limit was reached before it began; the same command continues"
    with pytest.raises(NothingFinishedError, match=r"MAE was left out: the time limit .* GAR was left out: .* RNC was left out"):
        compare_table(source, QUICK, RunContext(workers=1, deadline=0.0))


def test_a_time_limit_trains_less_and_says_what_was_left_out() -> None:
    source = source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])
    start = time.monotonic()
    part = compare_table(source, Options(losses=("mae", "gar")), RunContext(workers=1, deadline=start + 4.0))
    assert time.monotonic() - start < 6.0
    assert part.is_late
    assert [method.name for method in part.problem.methods] == ["mae", "gar"]
    assert any(note.startswith("MAE: ") and " of " in note for note in part.problem.notes)


def test_the_plan_chooses_what_is_affordable() -> None:
    """The baseline and GAR are always trained; of the others those that fit."""
    source = source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])
    nothing = plan_problem(source, Options(epochs=6), RunContext(), affordable=0.01)
    assert nothing.losses == ("mae", "gar")
    assert set(nothing.left_out) == set(PAPER_LOSSES) - {"mae", "gar"}
    assert any(line.startswith("left out to keep it short: MSE") for line in nothing.lines)
    everything = plan_problem(source, Options(epochs=1), RunContext(), affordable=1e6)
    assert set(everything.losses) == set(PAPER_LOSSES)
    assert everything.total is not None
    assert sum(one.seconds for one in everything.estimates.values()) < 2 * everything.total  # two at a time
    named = plan_problem(source, Options(epochs=1, losses=("conr", "mae")), RunContext(), affordable=0.01)
    assert named.losses == ("mae", "conr")


def test_rows_are_split_in_order_of_time() -> None:
    frame = diabetes().assign(day=pd.date_range("2020-01-01", periods=442).astype(str)[np.random.default_rng(0).permutation(442)])
    source = source_of_frame(frame, targets=["target"], drop=["clinic", "double"], time="day")
    prepared = prepare(source, QUICK)
    days = frame["day"].to_numpy()
    for train, valid, test in prepared.parts:
        assert days[test].min() > max(days[train].max(), days[valid].max())
        assert set(days[valid]).isdisjoint(days[train])
        assert not any(days[valid].min() < day < days[valid].max() for day in days[train])
    assert len(prepared.test) == 442 - round(0.8 * 442)
    found = compare_table(source, replace(QUICK, losses=("mae",), epochs=1), RunContext())
    assert found.problem.settings["split"] == "the last in time"
    assert not any("--time" in warning for warning in found.problem.warnings)
    with pytest.raises(InputError, match="time 'sex' holds text that is neither dates nor numbers"):
        source_of_frame(frame, targets=["target"], time="sex")
    with pytest.raises(InputError, match="two ways to split the rows; choose one"):
        source_of_frame(frame, targets=["target"], time="day", group="clinic")


def test_a_table_is_looked_at_before_it_is_trusted() -> None:
    """A copy of the label, rows that occur twice, persons, dates and few rows: each is a warning, and a good table has none."""
    frame = diabetes().drop(columns=["clinic", "double"])
    quick = replace(QUICK, losses=("mae",), epochs=1, folds=2)

    def warned(table: pd.DataFrame) -> str:
        return "\n".join(compare_table(source_of_frame(table, targets=["target"]), quick, RunContext()).problem.warnings)

    assert warned(frame) == ""
    assert "Column 'copy' gives 'target' away" in warned(frame.assign(copy=np.exp(frame["target"] / 100)))
    assert "test rows stand in the training rows, too" in warned(pd.concat([frame, frame.iloc[::2]]))
    assert "Column 'patient_id' looks like persons" in warned(frame.assign(patient_id=np.arange(len(frame)) // 4))
    dated = frame.assign(seen=pd.date_range("2020-01-01", periods=len(frame)).astype(str))
    assert "Column 'seen' looks like time" in warned(dated)
    assert "only 30 rows, 6 of them for the test" in warned(frame.iloc[:30])
    assert warned(frame.assign(same=1)).startswith("Left out, since all rows have the same value")


def test_references_are_a_constant_and_a_linear_model(found: Compared) -> None:
    constant, linear = found.problem.references
    prepared = prepare(source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"]), QUICK)
    labels = prepared.source.labels[:, 0]
    expected = [np.abs(labels[test] - np.median(labels[train])).mean() for train, _, test in prepared.parts]
    assert list(constant.scores["mae"]) == pytest.approx(expected)
    assert np.mean(linear.scores["mae"]) < 0.8 * np.mean(constant.scores["mae"])
    assert np.mean(linear.scores["r2"]) > 0.4


def test_a_large_table_has_three_random_splits() -> None:
    frame = pd.DataFrame({"x": np.sin(np.arange(25_000)), "z": np.cos(np.arange(25_000)), "y": np.sin(2.0 * np.arange(25_000))})
    parts = prepare(source_of_frame(frame, targets=["y"]), Options()).parts
    assert [(len(train), len(valid), len(test)) for train, valid, test in parts] == [(18_000, 2000, 5000)] * 3
    assert len(prepare(source_of_frame(frame, targets=["y"]), Options(folds=5)).parts) == 5


def test_records_change_nothing_and_are_used(tmp_path: Path, found: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])
    run = RunContext(workers=1, records=tmp_path)
    first = compare_table(source, QUICK, run)
    with monkeypatch.context() as patch:
        patch.setattr("gar.search.grid.train_chunk", lambda *_: pytest.fail("trained again"))
        again = compare_table(source, QUICK, run)
    for one, other, plain in zip(first.problem.methods, again.problem.methods, found.problem.methods, strict=True):
        assert one.scores == other.scores == plain.scores
        assert other.seconds == one.seconds > 0
    assert again.model is not None
    assert found.model is not None
    assert np.array_equal(again.model.predict(diabetes()), found.model.predict(diabetes()))
    (damaged, *_) = tmp_path.glob("loss-*/model.safetensors")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.warns(RecordWarning, match="cannot be used .*; its loss is trained again"):
        third = compare_table(source, QUICK, run)
    assert [one.scores for one in third.problem.methods] == [one.scores for one in first.problem.methods]


def test_workers_change_nothing(found: Compared) -> None:
    two = compared(context=RunContext(workers=2))
    assert [one.scores for one in two.problem.methods] == [one.scores for one in found.problem.methods]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"losses": ("mea",)}, "loss 'mea' is unknown; choose one of mae, .*, or register .* --plugin"),
        ({"parameters": {"mea": (1.0,)}}, "loss 'mea' is unknown"),
        ({"losses": ()}, "no loss is chosen"),
        ({"parameters": {"mae": (1.0,)}}, "no such parameter"),
        ({"folds": 1}, "folds=1"),
        ({"seed": -1}, "seed=-1"),
        ({"learning_rates": (0.0,)}, "learning_rate"),
        ({"weight_decays": (-1.0,)}, "weight_decay"),
        ({"metric": "accuracy"}, "accuracy"),
        ({"losses": ("rnc",), "hidden_sizes": ()}, "hidden_sizes is empty"),
    ],
)
def test_wrong_options_are_explained_at_once(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Options(**changes)  # type: ignore[arg-type]


def test_a_curve_shows_the_combination_with_the_lowest_error() -> None:
    options = Options(losses=("mae", "rnc", "gar"), epochs=3, hidden_sizes=(8, 8), learning_rates=(1e-2, 1e-8))
    problem = compare_curve("sine", options, RunContext(workers=1)).problem
    assert problem.truth is not None
    assert len(problem.truth.x) == 629
    assert sum(problem.truth.trained) == problem.train_rows == 629 - problem.test_rows
    for method in problem.methods:
        assert method.curve is not None
        assert len(method.curve.mean) == len(method.curve.sd) == 629
        assert {choice.learning_rate for choice in method.chosen} == {1e-2}
        assert [choice.fold for choice in method.chosen] == [1, 2, 3]
        unseen = ~np.array(problem.truth.trained)
        bound = np.abs(np.subtract(method.curve.mean, problem.truth.y))[unseen].mean()
        assert bound <= np.mean(method.scores["mae"]) + 1e-6  # the error of a mean is at most the mean of errors


@pytest.mark.parametrize("workers", [0, True])
def test_a_number_of_workers_that_is_none(workers: int) -> None:
    with pytest.raises(InputError, match="is not a number of workers"):
        RunContext(workers=workers)


SHORT = replace(QUICK, losses=("mae",), epochs=1, folds=2, learning_rates=(1e-2,))


def table(out: Path) -> Report:
    source = source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])
    return compare_and_report([source], SHORT, RunContext(), out=out, command="gar compare")


def curve(out: Path) -> Report:
    return compare_and_report(["sine"], SHORT, RunContext(), out=out, command="gar compare sine")


def test_the_parallel_backend_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All searches compute on it: a cluster is not started again for every loss."""
    opened: list[str | None] = []

    def open_backend(backend: str | None = None, **options: object) -> AbstractContextManager[None]:
        opened.append(backend)
        return nullcontext()

    for module in ("gar.app.compare.comparison", "gar.search.context"):
        monkeypatch.setattr(f"{module}.parallel_backend", open_backend)
    context = RunContext(backend="dask", address="tcp://localhost:8786")
    compare_and_report(["sine"], SHORT, context, out=tmp_path, command="gar compare sine")
    assert opened == ["dask"]


def test_a_comparison_without_a_model_leaves_no_older_one(tmp_path: Path) -> None:
    assert table(tmp_path).model == tmp_path / "model"
    assert (tmp_path / "model" / "model.safetensors").exists()
    assert curve(tmp_path).model is None
    assert not (tmp_path / "model").exists()
    assert table(tmp_path).model == tmp_path / "model"
    load_model(tmp_path / "model")


def test_other_files_beside_an_older_model_are_kept(tmp_path: Path) -> None:
    table(tmp_path)
    (tmp_path / "model" / "notes.txt").write_text("mine")
    curve(tmp_path)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("content", [b"", b"no tensors", save({"oak": torch.zeros(1)})])
def test_what_is_no_model_of_gar_is_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(content)
    curve(tmp_path)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == content


def test_a_report_that_cannot_be_written_leaves_the_old_one_with_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(results: object, folder: Path) -> Path:
        raise OSError("no space left")

    table(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file() and "records" not in path.parts}
    assert {path.parent.name for path in before} >= {"figures", "model"}
    monkeypatch.setattr("gar.app.report.page.write_report", fail)
    for compare in (table, curve):
        with pytest.raises(OSError, match="no space left"):
            compare(tmp_path)
        assert {path: path.read_bytes() for path in before} == before


def test_two_comparisons_with_one_folder_leave_report_and_model_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one begins to write while the first has saved its model and not yet its report."""
    second = Thread(target=lambda: curve(tmp_path))

    def write_report(results: Results, folder: Path) -> Path:
        if "sine" not in results.command:
            second.start()
            second.join(timeout=2.0)
        (folder / "report.html").write_text(results.command)
        return folder / "report.html"

    monkeypatch.setattr("gar.app.report.page.write_report", write_report)
    table(tmp_path)
    second.join()
    assert (tmp_path / "report.html").read_text() == "gar compare sine"
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody may write")
def test_a_folder_that_cannot_be_written_to_is_named_without_words_of_the_library() -> None:
    with pytest.raises(InputError, match=r"'/proc/self/out/records', where records .*; choose another folder") as raised:
        curve(Path("/proc/self/out"))
    assert "records=" not in str(raised.value)
