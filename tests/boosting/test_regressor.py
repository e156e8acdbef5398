"""Boosted trees as scikit-learn users call them."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from gar.boosting import GARBoostRegressor
from gar.boosting.metrics import correlation_within

BOTH = pytest.mark.parametrize("library", ["xgboost", "lightgbm"])


def model(library: Any, **more: Any) -> GARBoostRegressor:
    return GARBoostRegressor(**{"library": library, "n_estimators": 60, "random_state": 0, **more})


@BOTH
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_every_check_of_scikit_learn(library: Any) -> None:
    """With an empty list of expected failures."""
    results = check_estimator(GARBoostRegressor(library=library, n_estimators=60), expected_failed_checks={})
    assert not [result["check_name"] for result in results if result["status"] in ("failed", "xfail")]
    assert sum(result["status"] == "passed" for result in results) > 50


@BOTH
def test_learns_in_pipelines_and_searches(library: Any) -> None:
    x, y = load_diabetes(return_X_y=True)
    assert cross_val_score(model(library, max_depth=2), x, y, cv=3).mean() > 0.35
    search = GridSearchCV(model(library), {"alpha": [0.1, 10.0], "max_depth": [1, 2]}, cv=2).fit(x, y)
    assert search.best_params_.keys() == {"alpha", "max_depth"}


@BOTH
def test_early_stopping_holds_out_rows(library: Any) -> None:
    x, y = load_diabetes(return_X_y=True)
    for scoring in ("pearson", "spearman", "gar"):
        stopped = model(library, n_estimators=300, early_stopping_rounds=10, scoring=scoring, learning_rate=0.3).fit(x, y)
        assert 0 < stopped.n_estimators_ < 150
        assert np.corrcoef(stopped.predict(x), y)[0, 1] > 0.5
    unstopped = model(library, n_estimators=25).fit(x, y)
    assert unstopped.n_estimators_ == 25


@BOTH
def test_weights_count_copies_and_order_does_not_matter(library: Any) -> None:
    x, y = make_regression(80, 3, noise=1.0, random_state=0)
    weight = np.random.default_rng(0).integers(0, 4, 80)
    copies = np.random.default_rng(1).permutation(np.repeat(np.arange(80), weight))
    weighted = model(library, n_estimators=20).fit(x, y, sample_weight=weight)
    repeated = model(library, n_estimators=20).fit(x[copies], y[copies])
    np.testing.assert_allclose(weighted.predict(x), repeated.predict(x), rtol=1e-5)


@BOTH
def test_groups_see_what_offsets_hide(library: Any) -> None:
    """Offsets of groups are far larger than the signal, and no feature shows them: only pairs inside groups reveal the signal."""
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 20)
    x = random.normal(size=(1200, 3))
    y = np.sin(2 * x[:, 0]) + 20 * random.normal(size=60)[groups]
    train, test = groups < 40, groups >= 40
    scores = []
    for known in (None, groups[train]):
        fitted = model(library, max_depth=3).fit(x[train], y[train], pair_groups=known)
        scores.append(correlation_within(fitted.predict(x[test]), y[test], groups[test]))
    assert scores[1] > 0.95 > 0.8 > scores[0]


def test_rows_of_a_pair_group_are_held_out_together() -> None:
    random = np.random.default_rng(0)
    pairs, x = np.repeat(np.arange(50), 6), random.normal(size=(300, 3))
    seen: list[Any] = []

    class Recording(GARBoostRegressor):
        def _train_valid_split(self, rows: np.ndarray, codes: np.ndarray | None, seed: int) -> Any:
            seen.extend(super()._train_valid_split(rows, codes, seed))
            return tuple(seen)

    Recording(early_stopping_rounds=5, n_estimators=20).fit(x, x[:, 0] + 5 * random.normal(size=50)[pairs], pair_groups=pairs)
    assert not set(pairs[seen[0]]) & set(pairs[seen[1]])


def test_early_stopping_holds_out_whole_groups() -> None:
    x, y = load_diabetes(return_X_y=True)
    groups = np.arange(len(x)) % 20
    fitted = model("xgboost", early_stopping_rounds=5, n_estimators=200).fit(x, y, groups=groups)
    train, valid = fitted._train_valid_split(np.arange(len(x)), groups, 0)
    assert valid is not None
    assert not set(groups[train]) & set(groups[valid])
    assert fitted.n_estimators_ < 200


def test_several_targets_and_missing_features() -> None:
    x, y = make_regression(150, 4, n_targets=2, random_state=0)
    x[::7, 1] = np.nan
    fitted = model("xgboost").fit(x, y)
    assert fitted.predict(x).shape == (150, 2)
    assert fitted.score(x, y) > 0.9


def linear(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(rows, 3))
    return x, x @ [1.0, 2.0, 3.0]


@BOTH
@pytest.mark.parametrize("scale", [1e-4, 1e-5, 1e-9, 1e-200, 1e18, 1e200])
def test_labels_of_any_scale_are_learned(library: Any, scale: float) -> None:
    x, y = linear()
    pred = model(library).fit(x, scale * y).predict(x) / scale
    assert np.mean((pred - y) ** 2) < 0.03 * y.var()


@BOTH
def test_scales_of_powers_of_two_are_the_same_to_the_last_bit(library: Any) -> None:
    x, y = linear()
    weight = np.arange(300) % 3
    one, other = (model(library, early_stopping_rounds=20).fit(x, 2.0**-k * y, weight).predict(x) * 2.0**k for k in (20, 50))
    np.testing.assert_array_equal(one, other)


@BOTH
def test_labels_far_from_0_are_centred_and_nothing_else_changes(library: Any) -> None:
    x, y = linear()
    y = np.round(y, 3)
    near, far = model(library).fit(x, y - np.median(y)), model(library).fit(x, y + 1e7)
    np.testing.assert_allclose(far.predict(x) - 1e7, near.predict(x) + np.median(y), atol=1e-3)
    assert float(far.model_.label_scale.scale) == 1.0


@BOTH
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_ordinary_labels_are_trained_as_they_are(library: Any, scale: float) -> None:
    x, y = linear()
    fitted = model(library).fit(x, scale * (y / y.std() + 1000))
    assert (float(fitted.model_.label_scale.center), float(fitted.model_.label_scale.scale)) == (0.0, 1.0)


def test_each_target_has_its_scale() -> None:
    x, y = linear()
    fitted = model("xgboost").fit(x, np.column_stack([y, 1e-9 * y, y + 1e8]))
    assert fitted.score(x, np.column_stack([y, 1e-9 * y, y + 1e8])) > 0.97
    assert fitted.model_.label_scale.center[0] == 0
    np.testing.assert_array_equal(fitted.model_.label_scale.scale == 1, [True, False, True])


@BOTH
def test_options_pickles_clones_and_frames(library: Any) -> None:
    x, y = load_diabetes(return_X_y=True, as_frame=True)
    option = {"colsample_bytree": 0.5} if library == "xgboost" else {"feature_fraction": 0.5}
    fitted = model(library, options=option).fit(x, y)
    plain = model(library).fit(x, y)
    assert not np.array_equal(fitted.predict(x), plain.predict(x))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(x), fitted.predict(x))
    np.testing.assert_array_equal(clone(fitted).fit(x, y).predict(x), fitted.predict(x))
    assert list(fitted.feature_names_in_) == list(x.columns)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(pd.DataFrame({f"other{k}": x.iloc[:, k] for k in range(x.shape[1])}))
