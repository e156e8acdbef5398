"""A tree library is one class and one entry: comparisons, saved models and estimators need nothing else."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from gar import InputError, registry
from gar.app.models import load_model
from gar.app.models.trees import TreeModel
from gar.boosting import GARBoostRegressor
from gar.boosting.library import Round, RoundSettings, TreeLibrary, leaf_rows, tree_library
from gar.registry import FAMILIES, FamilySpec, register_family
from gar.search import RunContext
from tests.app.compare.example import QUICK, compared, diabetes


class DecisionTrees(TreeLibrary):
    """Boosted trees of scikit-learn: Newton steps of whole trees, saved as lists of their nodes."""

    name, package, error = "decision_trees", "sklearn", "exceptions.NotFittedError"

    def train_rounds(self, settings: RoundSettings, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]) -> Iterator[Round]:
        booster: dict[str, Any] = {"features": x.shape[1], "trees": []}
        pred, outputs = np.zeros(len(y)), [np.zeros(len(other)) for other in others]
        while True:
            gradient, curvature = settings.objective(y, pred) if settings.objective else (pred - y, np.ones(len(y)))
            tree = DecisionTreeRegressor(
                max_depth=settings.max_depth, min_samples_leaf=leaf_rows(len(x)), random_state=settings.seed
            )
            nodes = tree.fit(x, -gradient / curvature, sample_weight=curvature).tree_
            value = settings.learning_rate * nodes.value[:, 0, 0]
            columns = (nodes.children_left, nodes.children_right, nodes.feature, nodes.threshold, value)
            booster["trees"].append([column.tolist() for column in columns])
            pred = pred + self._outputs(booster["trees"][-1], x)
            outputs = [before + self._outputs(booster["trees"][-1], other) for before, other in zip(outputs, others, strict=True)]
            yield Round(outputs, booster)

    @staticmethod
    def _outputs(tree: list[list[float]], x: np.ndarray) -> np.ndarray:
        left, right, feature, threshold, value = map(np.array, tree)
        node = np.zeros(len(x), dtype=int)
        while (inner := left[node] >= 0).any():
            is_left = x.astype(np.float32)[np.arange(len(x)), feature[node]] <= threshold[node]
            node = np.where(inner, np.where(is_left, left[node], right[node]), node)
        return np.asarray(value[node])

    def to_text(self, booster: Any) -> str:
        return json.dumps(booster)

    def from_text(self, text: str, features: int) -> Any:
        booster = json.loads(text)
        self.check_features(booster["features"], features)
        return booster

    def predict(self, booster: Any, x: np.ndarray, rounds: int | None = None) -> np.ndarray:
        return np.asarray(sum(self._outputs(tree, x) for tree in booster["trees"][:rounds]))


@pytest.fixture
def third() -> Iterator[str]:
    register_family("decision_trees", FamilySpec(title="Decision trees", module=DecisionTrees, losses=("gar",)))
    yield "decision_trees"
    registry._FAMILIES.pop("decision_trees")


def test_a_third_library_is_compared_saved_and_loaded(third: str, tmp_path: Path) -> None:
    options = replace(QUICK, losses=("gar", "rnc"), families=(third, "lightgbm"), parameters={"gar": (1.0,)}, folds=2)
    found = compared(options)
    assert [method.title for method in found.problem.methods] == ["GAR (Decision trees)", "GAR (LightGBM)"]
    assert "RNC: for networks only, and not tried with decision_trees." in found.problem.notes
    for method in found.problem.methods:
        assert np.mean(method.scores["pearson"]) > 0.4
    mine = replace(options, losses=("gar",), families=(third,))
    alone, side_by_side = (
        compared(mine, context=RunContext(workers=workers, records=tmp_path / str(workers))) for workers in (1, 2)
    )
    assert alone.problem.methods[0].scores == side_by_side.problem.methods[0].scores == found.problem.methods[0].scores
    assert isinstance(alone.model, TreeModel)
    alone.model.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(diabetes()), alone.model.predict(diabetes()))


def test_a_library_without_custom_objectives_says_so(third: str) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(InputError, match="library='decision_trees' cannot be trained with a custom objective; use 'xgboost' or"):
        GARBoostRegressor(library=third).fit(x, x[:, 0])


def test_families_are_registered_once(third: str) -> None:
    spec = FAMILIES[third]
    register_family(third, spec)
    with pytest.raises(InputError, match=r"a model named 'xgboost' \(XGBoost\) exists already; choose another name"):
        register_family("xgboost", spec)
    with pytest.raises(InputError, match="name='cat-boost' cannot name a model; use letters, digits and underscores"):
        register_family("cat-boost", spec)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_rounds_predict_what_their_text_predicts(library: str) -> None:
    """After every round, for every loss: outputs for other rows, and the model as text, agree."""
    adapter, random = tree_library(library), np.random.default_rng(0)
    x, other = random.normal(size=(2, 100, 3))
    for loss in FAMILIES[library].losses or ():
        settings = RoundSettings(loss=loss, max_depth=2, learning_rate=0.3, seed=1, subsample=0.8)
        for predictions, booster in islice(adapter.train_rounds(settings, x, x[:, 0], [other, x]), 3):
            loaded = adapter.from_text(adapter.to_text(booster), 3)
            for pred, part in zip(predictions, (other, x), strict=True):
                np.testing.assert_allclose(pred, adapter.predict(loaded, part), rtol=1e-5, atol=1e-7)
        with pytest.raises(ValueError, match="trees for 3 features, but the table is encoded as 4"):
            adapter.from_text(adapter.to_text(booster), 4)
    with pytest.raises(ValueError, match=r".+"):
        adapter.from_text("no trees", 3)


def test_an_unknown_library_names_those_there_are() -> None:
    with pytest.raises(InputError, match="library='mlp' is unknown; choose one of 'xgboost', 'lightgbm'"):
        tree_library("mlp")
