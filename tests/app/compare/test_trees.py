"""Boosted trees in a comparison: the same folds and selection as for networks, records, and saved models."""

import json
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost

from benchmarks.fuzz.crafting import CRAFTED, Edit, crafted
from gar import metrics
from gar.app.compare import Compared, NothingFinishedError, Options, compare_curve, compare_table, source_of_frame
from gar.app.compare.source import Source, prepare
from gar.app.compare.trees import RoundHistory, TreeGrid, TreeSearchSettings, fit, search_trees, tree_key
from gar.app.models import Model, load_model
from gar.app.models.file import description_text
from gar.app.models.trees import TreeModel
from gar.app.report.results import Method
from gar.boosting import GARObjective
from gar.boosting.library import LEAF_ROWS, leaf_rows, tree_library
from gar.errors import InputError
from gar.registry import FAMILIES
from gar.search import RecordWarning, RunContext, select
from gar.search.grid import to_shared
from gar.stack import StackData
from tests.app.compare.example import QUICK, compared, diabetes
from tests.search.problem import StoppedContext

TREES = replace(QUICK, losses=("gar", "mse"), families=("xgboost", "lightgbm"), parameters={"gar": (1.0,)}, folds=2)
BOTH = pytest.mark.parametrize("library", ["xgboost", "lightgbm"])


def diabetes_source() -> Source:
    return source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])


@pytest.fixture(scope="module")
def found() -> Compared:
    return compared(replace(TREES, families=("mlp", "lightgbm", "xgboost"), epochs=2))


def method_of(found: Compared, name: str) -> Method:
    return next(method for method in found.problem.methods if method.name == name)


def test_every_family_has_its_rows(found: Compared) -> None:
    names = ["mse", "gar", "mse-lightgbm", "gar-lightgbm", "mse-xgboost", "gar-xgboost"]
    assert [method.name for method in found.problem.methods] == names
    assert method_of(found, "gar-xgboost").title == "GAR (XGBoost)"
    assert (method_of(found, "gar-lightgbm").loss, method_of(found, "gar-lightgbm").family) == ("gar", "lightgbm")
    assert [method.models for method in found.problem.methods[2:]] == [2 * 2 * 2 * 3, 2 * 2 * 2] * 2  # three seeds, one alpha
    assert found.problem.settings["tree_depths"] == [3, 6]
    assert found.problem.settings["xgboost"] == f"version {xgboost.__version__}"
    assert found.problem.settings["hidden_sizes"] == [16, 8]
    json.dumps(found.problem.settings, allow_nan=False)


def own_training(library: str, chosen: Any, x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Train the same trees with the library's own loop and parameter names."""
    rounds, objective = chosen.epoch, GARObjective(alpha=chosen.parameter)
    if library == "xgboost":
        params = {"max_depth": chosen.depth, "eta": chosen.learning_rate, "min_child_weight": 5, "subsample": 0.8, "seed": 123}
        params |= {"base_score": 0, "nthread": 1, "disable_default_eval_metric": 1, "seed_per_iteration": True}
        model = xgboost.train(params, xgboost.DMatrix(x, y), rounds, obj=objective)
        return np.asarray(model.predict(xgboost.DMatrix(test)))
    params = {"max_depth": chosen.depth, "num_leaves": 2**chosen.depth, "learning_rate": chosen.learning_rate, "seed": 123}
    params |= {"bagging_fraction": 0.8, "bagging_freq": 1, "num_threads": 1, "verbose": -1, "boost_from_average": False}
    params |= {"deterministic": True, "force_row_wise": True, "objective": objective}
    return np.asarray(lightgbm.train(params, lightgbm.Dataset(x, y), rounds).predict(test))


@BOTH
def test_scores_are_those_of_the_librarys_own_training(found: Compared, library: str) -> None:
    method = method_of(found, f"gar-{library}")
    data = prepare(diabetes_source(), TREES).folds[0]
    x, y = data.x.numpy(), data.y[:, 0].numpy()
    for fold, chosen, score in zip(data.folds, method.chosen, method.scores["mae"], strict=True):
        assert fold.labels is not None
        center, scale = np.median(y[fold.train]), float(fold.labels.scale)
        pred = own_training(library, chosen, x[fold.train], (y[fold.train] - center) / scale, x[fold.test])
        assert np.abs(center + scale * pred - y[fold.test]).mean() == pytest.approx(score, rel=1e-5)
        assert chosen.weight_decay is None


@BOTH
def test_rounds_end_when_validation_does_not_improve(library: Any) -> None:
    data = prepare(diabetes_source(), TREES).folds[0]
    settings = TreeSearchSettings(loss="gar", monitor="pearson", rounds=200, patience=10)
    models = TreeGrid.of(folds=1, seeds=(1,), depths=(3,), rates=(0.1, 0.3), parameters=(1.0,))
    history, is_complete = search_trees(data, models, tree_library(library), settings)
    assert is_complete
    valid = history.of("valid", "pearson")
    for row in valid:
        length = int(np.isfinite(row).sum())
        assert length == min(200, int(np.nanargmax(row)) + 1 + 10)
    best = select(history, models, "pearson")
    assert best.epoch[0] == np.nanargmax(valid[best.model[0]])


def test_a_fold_predicts_what_was_measured_before_and_after_saving(tmp_path: Path) -> None:
    for library in ("xgboost", "lightgbm"):
        found = compared(replace(TREES, losses=("gar",), families=(library,)), targets=["target,double"], drop=["clinic"])
        assert isinstance(found.model, TreeModel)
        found.model.save(tmp_path / library)
        again = load_model(tmp_path / library)
        assert isinstance(again, TreeModel)
        assert np.array_equal(again.predict(diabetes()), found.model.predict(diabetes()))
        prepared = prepare(source_of_frame(diabetes(), targets=["target,double"], drop=["clinic"]), TREES)
        test = prepared.parts[0][2]
        features, labels = prepared.source.features.iloc[test], prepared.source.labels[test]
        scores = found.problem.methods[0].scores["mae"]
        for fold, score in enumerate(scores):
            alone = torch.from_numpy(again.predict_fold(fold, features))
            assert float(metrics.mae(alone, torch.from_numpy(labels))) == pytest.approx(score, rel=1e-5)
        assert any("labels are missing" in note for note in found.problem.notes)
        rows = diabetes().iloc[:3].assign(sex=["child", None, "man"], bmi=np.nan)
        assert np.isfinite(again.predict(rows)).all()


@pytest.fixture(scope="module")
def contents() -> dict[str, bytes]:
    """The file of a small model of each library."""
    return {library: _saved(compared(replace(TREES, losses=("gar",), families=(library,))).model) for library in CRAFTED}


def _saved(model: Model | None) -> bytes:
    assert model is not None
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return (Path(folder) / "model.safetensors").read_bytes()


def test_foreign_descriptions_of_trees_are_refused(
    contents: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = json.loads(description_text(contents["lightgbm"]))

    def refused(message: str, **changes: object) -> None:
        text = json.dumps({**about, **changes}, separators=(",", ":"))
        (tmp_path / "model.safetensors").write_bytes(crafted(contents["lightgbm"], description=lambda _: text))
        with pytest.raises(InputError, match=message):
            load_model(tmp_path)

    refused("library 'catboost' is none of", library="catboost")
    refused("2 texts of trees for 2 folds of 2 targets", targets=["one", "two"])
    refused("2 texts of trees", scales=[])
    refused("Input should be a finite number", scales=[[[1e999, 1.0]], [[0.0, 1.0]]])
    refused("Input should be a valid number", scales=[[["0", 1.0]], [[0.0, 1.0]]])
    refused("trees for 12 features, but the table is encoded as 11", encoders=[_narrower(one) for one in about["encoders"]])
    (tmp_path / "model.safetensors").write_bytes(contents["lightgbm"])
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "lightgbm", None)
        with pytest.raises(InputError, match=r"lightgbm is not installed; install the extra 'boosting'"):
            load_model(tmp_path)
    load_model(tmp_path)


def _narrower(encoder: dict[str, Any]) -> dict[str, Any]:
    return {**encoder, "columns": [column for column in encoder["columns"] if column["name"] != "age"]}


@pytest.mark.parametrize(("library", "name"), [(library, name) for library, edits in CRAFTED.items() for name in edits])
def test_crafted_trees_are_refused_before_a_library_loads_them(
    contents: dict[str, bytes], tmp_path: Path, library: str, name: str
) -> None:
    """They crash or hang the process, or predict from other memory."""
    (tmp_path / "model.safetensors").write_bytes(crafted(contents[library], trees=CRAFTED[library][name]))
    with pytest.raises(InputError, match="cannot be read"):
        load_model(tmp_path)


def test_crafting_alone_is_no_reason_to_refuse(contents: dict[str, bytes], tmp_path: Path) -> None:
    """Trees that were read and written anew are fine, so those above are refused for what is wrong with them."""
    anew: dict[str, Edit] = {"xgboost": lambda text: json.dumps(json.loads(text), separators=(",", ":")), "lightgbm": str}
    for library, content in contents.items():
        (tmp_path / "model.safetensors").write_bytes(crafted(content, trees=anew[library]))
        load_model(tmp_path)


def test_a_new_model_replaces_the_old_one(contents: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(contents["lightgbm"])
    networks = compared(replace(QUICK, losses=("gar",), folds=2, epochs=1)).model
    assert networks is not None
    networks.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    assert np.array_equal(load_model(tmp_path).predict(diabetes()), networks.predict(diabetes()))


def test_records_are_used_and_damaged_ones_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = diabetes_source()
    options = replace(TREES, losses=("gar",), families=("lightgbm",))
    first = compare_table(source, options, RunContext(workers=1, records=tmp_path))
    files = sorted(tmp_path.glob("*/*.npz"))
    assert len(files) == first.problem.methods[0].models == 8
    trained: list[int] = []

    def counted(number: int, *rest: Any) -> tuple[int, RoundHistory]:
        trained.append(number)
        return fit(number, *rest)

    monkeypatch.setattr("gar.app.compare.trees.fit", counted)
    again = compare_table(source, options, RunContext(workers=1, records=tmp_path))
    assert not trained
    assert again.problem.methods[0].scores == first.problem.methods[0].scores
    assert again.problem.methods[0].seconds == first.problem.methods[0].seconds > 0  # those of the fits that were finished
    files[2].write_bytes(files[2].read_bytes()[:-1])
    with pytest.warns(RecordWarning, match=r"checksum.*trained again"):
        third = compare_table(source, options, RunContext(workers=1, records=tmp_path))
    assert len(trained) == 1
    assert third.problem.methods[0].scores == first.problem.methods[0].scores
    other = compare_table(source, replace(options, metric="spearman"), RunContext(workers=1, records=tmp_path))
    assert len(trained) == 9  # another metric stops at other rounds
    assert other.problem.selected_by == "spearman"


def test_time_is_up_between_fits(tmp_path: Path) -> None:
    source = diabetes_source()
    options = replace(TREES, losses=("gar",), families=("lightgbm",))
    with pytest.raises(NothingFinishedError, match=r"GAR \(LightGBM\) was left out: the time limit was reached before it"):
        compare_table(source, options, RunContext(workers=1, records=tmp_path, deadline=0.0))
    data = prepare(source, options).folds[0]
    lightgbm, settings = tree_library("lightgbm"), TreeSearchSettings(loss="mse", monitor="mae", rounds=5)
    models = TreeGrid.of(folds=2, seeds=(1,), depths=(2,), rates=(0.1,), parameters=None)
    answers = iter([False, True])
    context = StoppedContext(records=tmp_path, stop=lambda: next(answers))
    part, is_complete = search_trees(data, models, lightgbm, settings, context=context)
    assert not is_complete
    assert np.isfinite(part.metrics[:, 0, 0, 0]).tolist() == [True, False]
    whole, _ = search_trees(data, models, lightgbm, settings)
    gone_on, is_complete = search_trees(data, models, lightgbm, settings, context=RunContext(records=tmp_path))
    assert is_complete
    np.testing.assert_array_equal(gone_on.metrics, whole.metrics)


def test_workers_change_nothing() -> None:
    data = prepare(diabetes_source(), TREES).folds[0]
    xgboost, settings = tree_library("xgboost"), TreeSearchSettings(loss="huber", monitor="mae", rounds=5)
    models = TreeGrid.of(folds=2, seeds=(1,), depths=(2,), rates=(0.1,), parameters=(0.5, 2.0))
    one, _ = search_trees(data, models, xgboost, settings)
    two, _ = search_trees(data, models, xgboost, settings, context=RunContext(workers=2))
    np.testing.assert_array_equal(one.metrics, two.metrics)


def test_losses_of_networks_are_left_out_in_one_line(found: Compared) -> None:
    assert not any("networks only" in note for note in found.problem.notes)
    options = replace(TREES, losses=("mse", "rnc", "ranksim"), families=("xgboost", "lightgbm"), parameters={}, metric="rmse")
    notes = compared(options).problem.notes
    assert "RNC, RankSim: for networks only, and not tried with xgboost and lightgbm." in notes
    with pytest.raises(InputError, match="xgboost: none of rnc fits; they are trained with mae, mse, huber, gar"):
        compared(replace(TREES, losses=("rnc",), families=("xgboost",), parameters={}))


def test_groups_are_kept_together() -> None:
    found = compared(replace(TREES, losses=("mse",), families=("lightgbm",), parameters={}), group="clinic", drop=["double"])
    assert found.problem.settings["split"] == "whole groups"
    assert len(found.problem.methods[0].scores["mae"]) == 2


@BOTH
def test_a_fold_without_differences_is_a_failed_fit(library: Any) -> None:
    """GAR has no gradient for constant labels, which is an error at the first round."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    data = StackData(x, np.append(np.ones(40), x[40:, 0]), [(np.arange(40), np.arange(40, 50), np.arange(50, 60))])
    job = tree_library(library), TreeSearchSettings(loss="gar", monitor="mae")
    models = TreeGrid.of(folds=1, seeds=(1,), depths=(2,), rates=(0.1,), parameters=(1.0,))
    number, fitted = fit(7, to_shared(data), models, job)
    assert (number, fitted.metrics.shape) == (7, (1, 0, 2, 5))
    assert "labels are constant" in fitted.reasons[0]
    history, _ = search_trees(data, models, *job)
    assert history.failed_epoch.tolist() == [0]
    with pytest.raises(InputError, match="no trees of fold 0 could be trained: labels are constant"):
        select(history, models, "mae")


SMALL = replace(TREES, losses=("gar",), parameters={"gar": (1.0,)})


def linear(rows: int) -> pd.DataFrame:
    x = np.random.default_rng(0).normal(size=(rows, 3))
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": x @ [1.0, 2.0, 3.0]})


@BOTH
@pytest.mark.parametrize("rows", [24, 50, 65])
def test_small_tables_are_learned(library: str, rows: int) -> None:
    found = compare_table(source_of_frame(linear(rows), targets=["y"]), replace(SMALL, families=(library,)), RunContext(workers=1))
    assert np.mean(found.problem.methods[0].scores["pearson"]) > 0.5


def test_leaves_are_smaller_for_small_tables() -> None:
    assert [leaf_rows(rows) for rows in (2, 16, 79, 80, 10_000)] == [1, 4, 19, LEAF_ROWS, LEAF_ROWS]


def test_the_key_of_records_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Library, its version, every setting, the size of leaves and the data: each makes another search of it."""
    library, settings = tree_library("lightgbm"), TreeSearchSettings(loss="mse", monitor="mae")
    large, small = (prepare(source_of_frame(linear(rows), targets=["y"]), TREES).folds[0] for rows in (400, 60))
    keys = [
        tree_key(large, library, settings),
        tree_key(small, library, settings),
        tree_key(large, tree_library("xgboost"), settings),
    ]
    changes = ({"loss": "mae"}, {"monitor": "rmse"}, {"rounds": 7}, {"patience": 7}, {"subsample": 0.7})
    keys += [tree_key(large, library, replace(settings, **change)) for change in changes]
    assert tree_key(large, library, settings) == keys[0]
    monkeypatch.setattr("gar.boosting.library.LEAF_ROWS", 30)
    keys.append(tree_key(large, library, settings))
    monkeypatch.setattr(lightgbm, "__version__", "0")
    keys.append(tree_key(large, library, settings))
    assert len(set(keys)) == len(keys) == 10


def test_what_the_library_refuses_is_left_out_with_its_reason(tmp_path: Path) -> None:
    """The only feature differs in fewer rows than a leaf has: LightGBM is left without any, which it does not let GAR have."""
    source = source_of_frame(linear(250).assign(a=lambda frame: (frame.index % 25 == 0) * 1.0)[["a", "y"]], targets=["y"])
    options = replace(TREES, families=("lightgbm", "xgboost"))
    reason = r"GAR \(LightGBM\) was left out: no trees of fold 0 could be trained: lightgbm cannot train these trees: .*features"
    for _ in range(2):  # the second time from records
        found = compare_table(source, options, RunContext(workers=1, records=tmp_path))
        assert [method.name for method in found.problem.methods] == ["mse-lightgbm", "mse-xgboost", "gar-xgboost"]
        assert any(re.match(reason, note) for note in found.problem.notes), found.problem.notes


@BOTH
def test_a_missing_package_is_named_before_anything_is_trained(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr("gar.app.compare.comparison.prepare", lambda *_: pytest.fail("too late"))
    with pytest.raises(InputError, match=rf"{library} is not installed; install the extra 'boosting'"):
        compared(replace(TREES, families=("mlp", library)))


def test_curves_are_for_networks() -> None:
    with pytest.raises(InputError, match="sine is a curve, which networks fit; choose 'mlp' among the models"):
        compare_curve("sine", replace(TREES, families=("xgboost",)), RunContext(workers=1))


@pytest.mark.parametrize(("families", "message"), [(("catboost",), "catboost"), ((), "no kind of model is chosen")])
def test_wrong_models_are_explained(families: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Options(families=families)


def test_the_registry_names_the_losses_of_trees() -> None:
    assert all(FAMILIES[library].losses == ("mae", "mse", "huber", "gar") for library in ("xgboost", "lightgbm"))
