"""A whole comparison on a real table: what is reported is what the search found, and what its folder holds."""

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from safetensors.torch import save

from gar import metrics
from gar.app.compare import (
    Compared,
    NothingFinishedError,
    Options,
    Report,
    compare_and_report,
    compare_curve,
    compare_table,
    source_of_frame,
)
from gar.app.compare.source import prepare
from gar.app.models import TableModel, load_model
from gar.app.report.results import Results
from gar.errors import InputError
from gar.registry import LOSSES, METRICS
from gar.search import RunContext, search, select
from tests.app.compare.example import QUICK, compared, diabetes


@pytest.fixture(scope="module")
def found() -> Compared:
    return compared()


def test_scores_are_those_of_the_winners_by_validation(found: Compared) -> None:
    """A search of its own gives the same scores."""
    prepared = prepare(source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"]), QUICK)
    models = QUICK.models("gar")
    settings = QUICK.settings("gar", features=prepared.data.x.shape[1], train_rows=min(len(part[0]) for part in prepared.parts))
    history = search(prepared.data, models, settings)
    method = next(method for method in found.problem.methods if method.name == "gar")
    for metric in METRICS:
        assert list(method.scores[metric]) == select(history, models, metric).of("test", metric).tolist()
    best = select(history, models, "mae")
    assert [choice.epoch for choice in method.chosen] == best.epoch.tolist()
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


def test_components_are_those_of_the_validation_rows(found: Compared) -> None:
    for method in found.problem.methods:
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
    assert problem.settings["network"] == [12, 16, 8, 1]
    json.dumps(problem.settings, allow_nan=False)


def test_every_loss_has_as_many_models() -> None:
    counts = {name: len(Options().models(name)) for name in LOSSES}
    assert set(counts.values()) == {60}


def test_sensitivity_holds_the_parameter(found: Compared) -> None:
    by_name = {method.name: method for method in found.problem.methods}
    assert [score.value for score in by_name["gar"].sensitivity] == [0.1, 1.0, 10.0]
    assert not by_name["mae"].sensitivity
    only = compared(replace(QUICK, losses=("gar",), parameters={"gar": (1.0,)})).problem.methods[0]
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
    assert len(predictions.true[0]) == 88
    assert len(predictions.true[1]) < 88
    assert any("labels are missing" in note for note in found.problem.notes)


def test_rows_without_labels_are_left_out() -> None:
    found = compared(replace(QUICK, losses=("mae",)), targets=["double"], drop=["clinic", "target"])
    assert found.problem.rows == diabetes()["double"].notna().sum()
    assert any("rows have no label" in note for note in found.problem.notes)


def test_groups_are_kept_together() -> None:
    found = compared(replace(QUICK, losses=("mae",), folds=3), group="clinic", drop=["double"])
    assert found.problem.settings["groups"] == "kept together"
    assert len(found.problem.methods[0].scores["mae"]) == 3


def test_the_papers_preset() -> None:
    options = Options(preset="paper", losses=("gar",), epochs=2)
    settings = options.settings("gar", features=8, train_rows=300)
    assert (settings.optimizer, settings.batch_size, settings.drop_last) == ("sgd", 256, True)
    assert settings.hidden_sizes == (16, 32, 16, 8)
    assert len(options.models("gar")) == 5 * 45
    assert prepare(source_of_frame(diabetes(), targets=["target"]), options).data.folds[0].labels is None


def test_nothing_is_reported_if_every_loss_diverges() -> None:
    wild = replace(QUICK, losses=("mae", "mse"), learning_rates=(1e30,), preset="paper")
    with pytest.raises(NothingFinishedError, match=r"no loss was finished\. MAE was left out: all"):
        compared(wild)


@dataclass(frozen=True, kw_only=True)
class Asked(RunContext):
    """A context whose deadline has passed once it was asked more than ``most`` times."""

    most: int
    asked: list[int] = field(default_factory=list)

    def is_late(self) -> bool:
        self.asked.append(1)
        return len(self.asked) > self.most


def test_losses_that_were_finished_in_time_are_reported(found: Compared, tmp_path: Path) -> None:
    """The clock is looked at before a loss and after each of its chunks; here they are two, since folds have two sizes."""
    source = source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])
    part = compare_table(source, QUICK, Asked(workers=1, records=tmp_path, most=6))
    assert part.is_late
    assert [method.name for method in part.problem.methods] == ["mae", "gar"]
    assert part.problem.methods[0].scores == found.problem.methods[0].scores
    assert part.problem.notes[-1].startswith("The time limit was reached before these were finished: RNC.")
    with pytest.raises(NothingFinishedError, match="The time limit was reached before these were finished: MAE, GAR, RNC"):
        compare_table(source, QUICK, RunContext(workers=1, deadline=0.0))


def test_records_change_nothing_and_are_used(tmp_path: Path, found: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])
    run = RunContext(workers=1, records=tmp_path)
    first = compare_table(source, QUICK, run)
    monkeypatch.setattr("gar.search.grid.train_chunk", lambda *_: pytest.fail("trained again"))
    again = compare_table(source, QUICK, run)
    for one, other, plain in zip(first.problem.methods, again.problem.methods, found.problem.methods, strict=True):
        assert one.scores == other.scores == plain.scores
        assert other.seconds >= one.seconds > 0


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
