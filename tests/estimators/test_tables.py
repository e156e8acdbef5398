"""Tables as people have them, given to the estimators as they come."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.inspection import permutation_importance
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gar import GARRegressor, GARRegressorCV, InputError
from gar.boosting import GARBoostRegressor

TABLES = Path(os.environ.get("GAR_DATA_HOME", "")) / "tables"
QUICK_CV: dict[str, Any] = {
    "learning_rates": (1e-2,),
    "weight_decays": (1e-2,),
    "alphas": (1.0,),
    "epochs": 3,
    "cv": 2,
    "encoding": None,
}
ESTIMATORS = [
    GARRegressor(epochs=3, random_state=0),
    GARRegressorCV(**QUICK_CV, random_state=0),
    GARBoostRegressor(n_estimators=10, random_state=0),
]
EACH = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)


def mixed(rows: int = 240, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of all kinds of columns, and labels to which most of them contribute."""
    generator = np.random.default_rng(seed)
    size, town = generator.normal(size=rows), generator.integers(0, 70, rows)
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 700, rows), unit="D")
    colour = generator.choice(["red", "green", "blue"], rows)
    y = size + generator.normal(size=70)[town] + (colour == "red") + np.sin(2 * np.pi * np.asarray(when.day_of_year) / 365)
    frame = pd.DataFrame(
        {
            "size": np.where(generator.random(rows) < 0.1, np.nan, size),
            "town": [f"town {number}" for number in town],
            "colour": pd.Series(colour).mask(generator.random(rows) < 0.1).astype("category"),
            "new": generator.random(rows) < 0.5,
            "when": when,
        }
    )
    return frame, y


@EACH
@pytest.mark.parametrize(
    "name", ["ames_housing", "seoul_bike", "metro_traffic", "nycflights_air_time", "beijing_air_pm25", "cps88_wages", "hitters"]
)
@pytest.mark.skipif(not TABLES.is_dir(), reason="GAR_DATA_HOME has no folder tables")
def test_public_tables_are_taken_as_they_come(name: str, estimator: Any) -> None:
    frame = pd.read_csv(TABLES / f"{name}.csv.gz", nrows=20_000, low_memory=False)
    frame = frame.sample(min(800, len(frame)), random_state=0)
    y = frame.pop("target").to_numpy()
    model = clone(estimator).fit(frame[:-60], y[:-60])
    pred = model.predict(frame[-60:])
    assert np.isfinite(pred).all()
    assert np.corrcoef(pred, y[-60:])[0, 1] > 0.1
    assert model.n_features_in_ == frame.shape[1]
    assert model.feature_names_in_.tolist() == frame.columns.tolist()


@pytest.mark.skipif(not TABLES.is_dir(), reason="GAR_DATA_HOME has no folder tables")
def test_thousands_of_categories_of_a_public_table() -> None:
    frame = pd.read_csv(TABLES / "nycflights_air_time.csv.gz", nrows=20_000, low_memory=False)
    y = frame.pop("target").to_numpy()
    model = GARRegressor(epochs=1, n_networks=2, batch_size=512, random_state=0).fit(frame, y)
    kinds = {column.name: column.kind for column in model.encoder_.columns}
    assert kinds["tailnum"] == "target"
    assert frame["tailnum"].nunique() > 2000
    assert len(model.members_[0].encoder.feature_names) < 200


@EACH
def test_polars_is_as_pandas_and_a_pickle_as_the_model(estimator: Any) -> None:
    frame, y = mixed()
    model = clone(estimator).fit(frame, y)
    same = clone(estimator).fit(pl.from_pandas(frame), pl.Series(y))
    np.testing.assert_array_equal(model.predict(frame), same.predict(pl.from_pandas(frame)))
    np.testing.assert_array_equal(model.predict(frame), pickle.loads(pickle.dumps(model)).predict(frame))


@EACH
def test_numbers_in_a_frame_are_as_in_an_array(estimator: Any) -> None:
    x = np.random.default_rng(0).normal(size=(120, 3))
    y = x.sum(1)
    x[::5, 1] = np.nan
    model = clone(estimator).fit(x, y)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    np.testing.assert_array_equal(model.predict(x), clone(estimator).fit(frame, y).predict(frame))
    assert np.isfinite(model.predict(np.full((1, 3), np.nan))).all()
    with pytest.raises(ValueError, match="infinity"):
        clone(estimator).fit(np.where(x > 2, np.inf, x), y)


@EACH
def test_new_values_get_sane_predictions(estimator: Any) -> None:
    frame, y = mixed()
    model = clone(estimator).fit(frame, y)
    new = (
        frame[:4]
        .astype({"colour": object, "new": object})
        .assign(
            size=[np.nan, np.inf, 1e9, 0.0],
            town=["nowhere", None, "town 1", "town 2"],
            colour=["pink", None, "red", "red"],
            new=[None] * 4,
        )
    )
    new.loc[new.index[0], "when"] = pd.NaT
    pred = model.predict(new)
    assert np.isfinite(pred).all()
    assert np.all(np.abs(pred - y.mean()) < 3 * np.ptp(y))


@EACH
def test_columns_that_differ_from_those_of_fit_are_named(estimator: Any) -> None:
    frame, y = mixed()
    model = clone(estimator).fit(frame, y)
    with pytest.raises(
        ValueError, match=r"unseen at fit time:\n- colour of it\nFeature names seen at fit time, yet now missing:\n- colour"
    ):
        model.predict(frame.rename(columns={"colour": "colour of it"}))
    with pytest.raises(InputError, match="column 'size' holds 'large' in row 1; expected numbers"):
        model.predict(frame.assign(size="large"))


@pytest.mark.parametrize("chosen", [["code"], [1], np.array([False, True])])
def test_numbers_may_be_categories(chosen: Any) -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"size": generator.normal(size=300), "code": generator.integers(0, 8, 300)})
    y = generator.permutation(8)[frame["code"]] + 0.1 * frame["size"]
    model = GARRegressor(epochs=10, categorical_features=chosen, random_state=0).fit(frame, y)
    assert model.members_[0].encoder.feature_names == ["size", *(f"code={code}" for code in range(8))]
    assert model.score(frame, y) > 0.9
    if not isinstance(chosen[0], str):
        np.testing.assert_array_equal(model.predict(frame), clone(model).fit(frame.to_numpy(), y).predict(frame.to_numpy()))


def test_categories_by_dtype_or_none() -> None:
    frame, y = pd.DataFrame({"code": pd.Categorical([1, 2, 3] * 20)}), np.arange(60.0)
    for given, names in (("from_dtype", ["code=1", "code=2", "code=3"]), (None, ["code"])):
        assert GARRegressor(epochs=1, categorical_features=given).fit(frame, y).members_[0].encoder.feature_names == names


@EACH
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["colour", "shape"], "categorical_features names 'shape'; the table has 'size', 'town', 'colour'"),
        ([9], "indices from 0 to 4"),
        ([True, False], "a mask of 5 values"),
        ("colour", "expected 'from_dtype'"),
        (3, "expected 'from_dtype'"),
    ],
)
def test_unknown_categorical_features(estimator: Any, given: Any, message: str) -> None:
    frame, y = mixed(40)
    with pytest.raises(InputError, match=message):
        clone(estimator).set_params(categorical_features=given).fit(frame, y)


def test_a_weight_of_two_equals_two_copies_of_a_row_with_text_and_gaps() -> None:
    frame, y = mixed(400)
    weight = np.random.default_rng(1).integers(0, 3, 400)
    groups, twice = np.arange(400) % 3, np.repeat(np.arange(400), weight)
    model = GARRegressorCV(**{**QUICK_CV, "cv": list(LeaveOneGroupOut().split(frame, y, groups))}, random_state=0)
    copies = clone(model).set_params(cv=list(LeaveOneGroupOut().split(twice, y[twice], groups[twice])))
    model.fit(frame, y, sample_weight=weight)
    copies.fit(frame.iloc[twice], y[twice])
    np.testing.assert_allclose(model.predict(frame), copies.predict(frame), rtol=1e-6)


def test_an_id_of_thousands_of_values_does_not_pay() -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"id": [f"no {number}" for number in generator.integers(0, 1500, 4000)], "x": generator.normal(size=4000)})
    y = 0.3 * frame["x"] + generator.normal(size=4000)
    settings: dict[str, Any] = {**QUICK_CV, "scoring": "r2", "epochs": 8, "batch_sizes": (128,)}
    with_id, without = (GARRegressorCV(**settings, random_state=0).fit(x, y).best_score_ for x in (frame, frame[["x"]]))
    assert without > 0.05
    assert abs(with_id - without) < 0.02


def test_ids_are_left_out_and_noted() -> None:
    frame, y = mixed()
    model = GARRegressor(epochs=1).fit(frame.assign(id=[f"no {row}" for row in range(len(frame))]), y)
    assert any(note.endswith("as with names and ids (1 column): id") for note in model.encoder_.notes)


def test_folds_share_rows_unless_encodings_differ() -> None:
    frame, y = mixed()
    plain = GARRegressorCV(**QUICK_CV).fit(frame[["colour", "new", "when"]], y)
    assert plain.members_[0].encoder is plain.members_[1].encoder
    gaps = GARRegressorCV(**QUICK_CV).fit(frame[["size", "new"]], y)
    assert gaps.members_[0].encoder.columns[0] != gaps.members_[-1].encoder.columns[0]


@EACH
def test_permutation_importance_and_pipelines(estimator: Any) -> None:
    frame, y = mixed()
    found = permutation_importance(clone(estimator).fit(frame, y), frame, y, n_repeats=2, random_state=0)
    assert found.importances_mean.shape == (5,)
    assert found.importances_mean[frame.columns.get_loc("size")] > found.importances_mean[frame.columns.get_loc("new")]
    scaled = make_column_transformer((StandardScaler(), ["size"]), remainder="passthrough", verbose_feature_names_out=False)
    pipeline = make_pipeline(scaled.set_output(transform="pandas"), clone(estimator)).fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == frame.columns.tolist()
    assert np.isfinite(pipeline.predict(frame)).all()
