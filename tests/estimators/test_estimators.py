"""The estimators as scikit-learn users meet them."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import gar
from gar import GARRegressor, GARRegressorCV, InputError
from gar.boosting import GARBoostRegressor
from gar.pickles import VersionWarning
from gar.registry import LOSSES

QUICK_CV: dict[str, Any] = {
    "alphas": (0.1, 1.0, 10.0),
    "learning_rates": (1e-2, 3e-3),
    "weight_decays": (1e-3,),
    "epochs": 20,
    "cv": 3,
    "encoding": None,
    "n_finalists": None,
}


def quick(**more: Any) -> GARRegressorCV:
    return GARRegressorCV(**{**QUICK_CV, "random_state": 0, **more})


def table(rows: int = 120, targets: int = 1) -> tuple[np.ndarray, np.ndarray]:
    x, y = make_regression(rows, 5, n_targets=targets, noise=1.0, random_state=0)
    return x, y


@pytest.mark.parametrize("estimator", [GARRegressor(epochs=30), GARRegressorCV(**{**QUICK_CV, "epochs": 30})], ids=["one", "cv"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning", "ignore:a fold has")  # its tables are small
def test_every_check_of_scikit_learn(estimator: Any) -> None:
    """The list of expected failures is empty."""
    results = check_estimator(estimator, expected_failed_checks={})
    assert not [result["check_name"] for result in results if result["status"] in ("failed", "xfail")]
    assert sum(result["status"] == "passed" for result in results) > 50


def test_cv_reports_like_grid_search() -> None:
    x, y = table()
    model = quick().fit(x, y)
    results = model.cv_results_
    assert len(results["params"]) == 2 * 1 * 3
    assert set(results["params"][0]) == {"encoding", "batch_size", "learning_rate", "weight_decay", "alpha"}
    scores = np.stack([results[f"split{fold}_test_score"] for fold in range(3)])
    np.testing.assert_allclose(results["mean_test_score"], scores.mean(0))
    best = int(results["rank_test_score"].argmin())
    assert results["params"][best] == model.best_params_
    assert model.best_score_ == pytest.approx(scores.mean(0).max())
    assert model.alpha_ == model.best_params_["alpha"]
    assert len(model.fold_params_) == 3
    assert all(params in results["params"] for chosen in model.fold_params_ for params in chosen)
    models, history = model.history_[None, None]
    assert len(models) == len(history) == 18


def test_cv_predicts_with_the_best_mean_of_networks() -> None:
    """Networks are those of the history at their best epoch, and their mean is no worse than the best of them alone."""
    x, y = table()
    splits = [(np.arange(40, 120), np.arange(40)), (np.arange(80), np.arange(80, 120))]
    model = quick(cv=splits, scoring="rmse").fit(x, y)
    history = model.history_[None, None][1]
    known = [weights.tolist() for weights in history.best.weights]
    assert model.fold_params_[0] == model.fold_params_[1]
    errors = []
    for member, chosen, (_, valid) in zip(model.members_, model.fold_params_, splits, strict=True):
        assert len(member.networks) == len(chosen)
        assert all(weights.tolist() in known for weights in member.networks.weights)
        mean = member.predict(torch.from_numpy(x[valid])).mean(0)[:, 0].numpy()
        errors.append(np.square(mean - y[valid]).mean())
    alone = np.reshape(history.of("valid", "rmse").min(1) ** 2, (2, 6)).mean(0)
    assert np.mean(errors) <= alone.min() + 1e-5
    assert model.best_score_ < 0  # errors count negative
    assert np.corrcoef(model.predict(x), y)[0, 1] > 0.95


def test_finalists_are_of_all_encodings() -> None:
    """All combinations of all encodings for a sixth of the epochs, and the best of each of them to the end."""
    x, y = table()
    model = quick(encoding="auto", n_finalists=3).fit(x, y)
    results = model.cv_results_
    assert len(results["params"]) == 3 * 6
    full = np.flatnonzero(results["epochs"] == 20)
    assert sorted(results["epochs"]) == [4] * 15 + [20] * 3
    assert {results["params"][index]["encoding"] for index in full} == {"periodic", "piecewise", None}
    assert sorted(results["rank_test_score"][full]) == [1, 2, 3]
    assert {encoding: len(run[0]) for (encoding, _), run in model.history_.items()} == {"periodic": 3, "piecewise": 3, None: 3}


def test_candidates_are_promoted_from_one_fold_to_all() -> None:
    """Rungs: one fold for all combinations, the other folds for the best sixth, and the best of these for all epochs."""
    x, y = table(rows=150)
    cv = [(np.arange(40, 150), np.arange(40)), (np.arange(130), np.arange(130, 150)), (np.arange(90), np.arange(90, 150))]
    model = quick(encoding=None, alphas=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0), n_finalists=1, cv=cv).fit(x, y)
    scores = np.stack([model.cv_results_[f"split{fold}_test_score"] for fold in range(3)])
    tried = np.isfinite(scores)
    assert tried[1].all()  # the fold with most training rows
    assert (tried[0] == tried[2]).all()
    assert tried[0].sum() == 12 // 6
    short = model.cv_results_["epochs"] == 4
    assert not short[np.argsort(-scores[1])[:2]].all()
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], np.nanmean(scores, 0))
    ranks = model.cv_results_["rank_test_score"]
    assert ranks[~short].tolist() == [1]
    assert max(ranks[tried[0]]) == 2  # candidates tried on more folds come first


def test_finalists_of_a_single_split() -> None:
    x, y = table()
    model = quick(n_finalists=2, cv=[(np.arange(80), np.arange(80, 120))]).fit(x, y)
    assert sorted(model.cv_results_["epochs"]) == [4] * 4 + [20] * 2
    assert np.corrcoef(model.predict(x), y)[0, 1] > 0.9


def test_expanded_features_fit_what_plain_features_do_not() -> None:
    """Steps of one feature: the encoding is chosen by validation score."""
    x = np.random.default_rng(0).uniform(-2, 2, size=(300, 2))
    y = np.floor(4 * x[:, 0]) % 2 + 0.1 * x[:, 1]
    scores = {encoding: quick(encoding=encoding).fit(x, y).best_score_ for encoding in ("periodic", "piecewise", None)}
    assert min(scores["periodic"], scores["piecewise"]) > scores[None] + 0.1
    assert quick(encoding="auto").fit(x, y).best_params_["encoding"] == max(scores, key=lambda name: scores[name])


@pytest.mark.parametrize("encoding", ["periodic", "piecewise", None])
def test_refit_trains_on_all_rows(encoding: str | None) -> None:
    x, y = table()
    model = quick(refit="best", encoding=encoding).fit(x, y)
    models, history = model.history_[encoding, None]
    best = [getattr(models, name) == model.best_params_[name] for name in ("learning_rate", "weight_decay")]
    epochs = history.best_epoch[best[0] & best[1] & (models.parameter == model.alpha_)]
    assert len(epochs) == 3
    alone = GARRegressor(
        alpha=model.alpha_,
        learning_rate=model.best_params_["learning_rate"],
        weight_decay=model.best_params_["weight_decay"],
        epochs=int(np.median(epochs)) + 1,
        encoding=encoding,
        early_stopping=False,
        n_networks=1,
        random_state=0,
    ).fit(x, y)
    assert [len(member.networks) for member in model.members_] == [1]
    np.testing.assert_allclose(model.predict(x), alone.predict(x))


def test_early_stopping_keeps_a_network_from_overfitting() -> None:
    """Where labels are mostly noise, networks without it learn the noise by heart; with it they come close to a constant."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 10)), rng.normal(size=400)
    y += 0.3 * x[:, 0]
    train, test = slice(0, 200), slice(200, 400)
    stopped, trained = (GARRegressor(early_stopping=early, random_state=0).fit(x[train], y[train]) for early in (True, False))
    assert len(stopped.members_) == 5
    assert stopped.score(x[test], y[test]) > -0.1
    assert trained.score(x[test], y[test]) < -0.5
    assert trained.score(x[train], y[train]) > 0.9


@pytest.mark.parametrize("loss", ["gar", "mae", "mse", "huber"])
@pytest.mark.parametrize("kind", [GARRegressor, GARRegressorCV])
def test_an_outlying_feature_does_not_ruin_a_prediction(kind: type[GARRegressor | GARRegressorCV], loss: str) -> None:
    """One feature of one row times 1000: the prediction stays within the labels' range and a quarter of its width."""
    x, y = table()
    more: dict[str, Any] = {} if kind is GARRegressor else QUICK_CV
    bounded, free = (kind(loss, bound_predictions=bound, random_state=0, **more).fit(x, y) for bound in (True, False))
    row = x[:1].copy()
    row[:, np.argmax(np.abs(np.corrcoef(x.T, y)[:-1, -1]))] *= 1000.0
    margin = 0.25 * (y.max() - y.min())
    assert y.min() - margin <= bounded.predict(row)[0] <= y.max() + margin
    assert not y.min() - margin <= free.predict(row)[0] <= y.max() + margin


def test_every_row_is_put_aside_once() -> None:
    splits = GARRegressor()._splits(23, seed=0)
    assert sorted(len(valid) for _, valid in splits) == [5] * 5
    assert set(np.concatenate([valid for _, valid in splits])) == set(range(23))
    assert all(sorted([*train, *valid]) == list(range(23)) for train, valid in splits)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_every_loss_by_name(loss: str) -> None:
    x, y = table()
    parameter = LOSSES[loss].parameter
    assert GARRegressor(loss, epochs=60, random_state=0).fit(x, y).score(x, y) > 0.2
    model = quick(loss=loss, learning_rates=(1e-2,), epochs=60).fit(x, y)
    assert model.score(x, y) > 0.2
    assert len(model.cv_results_["params"]) == max(1, len(LOSSES[loss].grid))
    assert parameter is None or parameter in model.best_params_
    assert hasattr(model, "alpha_") == (loss == "gar")


def test_grids_may_be_single_values_and_arrays() -> None:
    x, y = table(40)
    single = quick(alphas=1.0, learning_rates=0.01, weight_decays=1e-3, batch_sizes=16, epochs=2).fit(x, y)
    assert len(single.cv_results_["params"]) == 1
    several = quick(loss="huber", parameters=np.array([0.5, 1.0]), learning_rates=0.01, epochs=2).fit(x, y)
    assert len(several.cv_results_["params"]) == 2
    assert GARRegressor("huber", loss_options={"delta": 0.5}, epochs=2).fit(x, y).predict(x).shape == (40,)


def test_alpha_is_not_searched_unless_asked_for() -> None:
    assert GARRegressorCV().loss_parameters == [10.0]
    assert GARRegressorCV(preset="paper").loss_parameters == (0.1, 1.0, 10.0)
    assert GARRegressorCV("huber").loss_parameters == LOSSES["huber"].grid
    assert GARRegressorCV("mae").loss_parameters == ()


def test_paper_preset() -> None:
    """Its 45 combinations, small network and unscaled labels."""
    x, y = table(60)
    model = GARRegressorCV(preset="paper", cv=2, random_state=0).fit(x, y)
    assert len(model.cv_results_["params"]) == 45
    assert all(member.networks.layout.sizes == (5, 16, 32, 16, 8, 1) for member in model.members_)
    assert all(member.labels is None for member in model.members_)


def test_several_targets_and_missing_labels() -> None:
    x, y = table(targets=3)
    whole = GARRegressor(epochs=40, random_state=0).fit(x, y)
    assert whole.predict(x).shape == (120, 3)
    holes = y.copy()
    holes[::3, 1] = np.nan
    partial = GARRegressor(epochs=40, random_state=0).fit(x, holes)
    assert np.corrcoef(partial.predict(x)[:, 1], y[:, 1])[0, 1] > 0.9
    assert quick().fit(x, holes).predict(x).shape == (120, 3)


def test_weights_are_copies_to_the_last_bit() -> None:
    """Also when batches are smaller than the table, and with shuffled rows."""
    x, y = table()
    counts = np.random.default_rng(0).integers(0, 3, 120)
    shuffled = np.random.default_rng(1).permutation(int(counts.sum()))
    model = GARRegressor(epochs=5, encoding="periodic", random_state=0)
    weighted = clone(model).fit(x, y, sample_weight=counts).predict(x)
    copies = clone(model).fit(x.repeat(counts, 0)[shuffled], y.repeat(counts)[shuffled]).predict(x)
    np.testing.assert_array_equal(weighted, copies)


def test_workers_change_nothing() -> None:
    x, y = table()
    np.testing.assert_array_equal(quick().fit(x, y).predict(x), quick(n_jobs=2).fit(x, y).predict(x))


def test_units_of_labels_do_not_matter() -> None:
    x, y = table()
    base = quick().fit(x, y).predict(x)
    np.testing.assert_allclose(quick().fit(x, 1e4 * y + 1e6).predict(x), 1e4 * base + 1e6, rtol=1e-3)


def test_frames_and_feature_names() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    x, y = table()
    names = [f"column {k}" for k in range(5)]
    model = GARRegressor(epochs=5, random_state=0).fit(pd.DataFrame(x, columns=names), pd.Series(y))
    assert list(model.feature_names_in_) == names
    expected = model.predict(pd.DataFrame(x, columns=names))
    by_polars = GARRegressor(epochs=5, random_state=0).fit(pl.DataFrame(x, schema=names), pl.Series(y))
    np.testing.assert_array_equal(by_polars.predict(pl.DataFrame(x, schema=names)), expected)


def test_scikit_learn_tools_take_it() -> None:
    x, y = table()
    pipeline = make_pipeline(StandardScaler(), GARRegressor(epochs=20, random_state=0))
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.8
    search = GridSearchCV(GARRegressor(epochs=10, random_state=0), {"alpha": [0.5, 2.0]}, cv=2).fit(x, y)
    assert search.best_params_["alpha"] in (0.5, 2.0)
    model = quick(cv=list(GroupKFold(3).split(x, groups=np.arange(120) // 10))).fit(x, y)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict(x), model.predict(x))
    assert clone(model).get_params().keys() == model.get_params().keys()


@pytest.mark.parametrize("model", [GARRegressor(epochs=2), quick(), GARBoostRegressor()], ids=lambda model: type(model).__name__)
def test_pickles_name_the_version_that_wrote_them(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No warning for a pickle or a copy of this version, and one sentence for those of others and of none."""
    for own in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert vars(own).keys() == vars(model).keys()
    monkeypatch.setattr("gar.pickles.__version__", "0.0.1")
    written = pickle.dumps(model)
    monkeypatch.undo()
    with pytest.warns(
        VersionWarning, match=rf"{type(model).__name__} was pickled by gar of version 0\.0\.1, and {gar.__version__} reads it"
    ):
        assert pickle.loads(written).get_params().keys() == model.get_params().keys()
    with pytest.warns(VersionWarning, match="version unknown"):
        clone(model).__setstate__(vars(model))


def test_it_fits_the_diabetes_table() -> None:
    """As well as a linear model at least: R2 of 0.48 to 0.49 by five folds."""
    x, y = load_diabetes(return_X_y=True)
    model = quick(epochs=30)
    assert cross_val_score(model, x, y, cv=3).mean() > 0.4


@pytest.mark.parametrize("encoding", [None, "periodic", "piecewise"])
def test_a_feature_that_was_constant_in_training_is_ignored_later(encoding: str | None) -> None:
    x, y = table(60)
    x[:, 4] = 0.1
    model = GARRegressor(epochs=5, encoding=encoding, random_state=0).fit(x, y)
    other = x.copy()
    other[:, 4] = np.linspace(-50000, 50000, 60)
    np.testing.assert_allclose(model.predict(other), model.predict(x), rtol=1e-6)


@pytest.mark.parametrize(("rows", "cv"), [(10, 5), (24, LeaveOneOut())], ids=["ten rows", "leave one out"])
def test_few_validation_rows_are_scored_by_mae(rows: int, cv: Any) -> None:
    """Two rows have a correlation of 1 or -1 and one row has none: untrained networks would win."""
    x = np.random.default_rng(0).normal(size=(rows, 3))
    y = x @ [1.0, 2.0, 3.0]
    with pytest.warns(UserWarning, match="too few to choose by pearson; 'mae' is used instead"):
        model = quick(cv=cv, epochs=60, scoring="pearson").fit(x, y)
    assert model.scoring_ == "mae"
    assert model.best_score_ < 0
    assert model.score(x, y) > 0.9
    assert quick(cv=2, scoring="pearson").fit(x, y).scoring_ == "pearson"


def test_numpy_integers_in_a_grid() -> None:
    search = GridSearchCV(GARRegressor(random_state=0), {"epochs": np.arange(2, 4)}, cv=2).fit(X, Y)
    assert search.best_params_["epochs"] in (2, 3)
    python, numpy, default = (quick(cv=cv, epochs=3, learning_rates=(1e-2,)).fit(X, Y) for cv in (5, np.int64(5), "auto"))
    np.testing.assert_array_equal(python.predict(X), numpy.predict(X))
    np.testing.assert_array_equal(python.predict(X), default.predict(X))


def test_an_estimator_whose_fit_failed_does_not_predict() -> None:
    model = GARRegressor(batch_size=0)
    with pytest.raises(InputError):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


X, Y = table(30)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: GARRegressor("gradient").fit(X, Y), "loss='gradient' is unknown"),
        (lambda: quick(loss="l1").fit(X, Y), "loss='l1' is unknown"),
        (lambda: quick(scoring="accuracy").fit(X, Y), "scoring='accuracy' is unknown"),
        (lambda: quick(refit="all").fit(X, Y), "refit='all' is unknown"),
        (lambda: quick(preset="icml").fit(X, Y), "preset='icml' is unknown"),
        (lambda: quick(alphas=()).fit(X, Y), "alphas is empty"),
        (lambda: quick(alphas="best").fit(X, Y), "alphas='best'"),
        (lambda: quick(n_finalists=0).fit(X, Y), "n_finalists=0 is not a whole number of 1 or more"),
        (lambda: quick(encoding="splines").fit(X, Y), "encoding='splines' is unknown"),
        (lambda: quick(cv=31).fit(X, Y), "cv=31 folds are asked of n_samples=30 rows"),
        (lambda: quick(cv=1).fit(X, Y), "cv=1"),
        (lambda: quick(cv="folds").fit(X, Y), "cv='folds' is unknown"),
        (lambda: quick().fit(X, Y, groups=[1, 2]), r"groups has shape \(2,\), X has 30 rows"),
        (lambda: quick().fit(X, Y, groups=5), r"groups has shape \(\), X has 30 rows"),
        (lambda: quick().fit(X, Y, pair_groups=[1, 2]), "pair_groups has 2 values, X has 30 rows"),
        (lambda: quick().fit(X, Y, pair_groups=[np.nan] * 30), "pair_groups has 30 missing of 30 values"),
        (lambda: GARRegressor("mae").fit(X, Y, pair_groups=np.arange(30) % 3), "loss='mae' compares no rows"),
        (lambda: quick(time_limit="5").fit(X, Y), "time_limit='5'; expected a number of seconds above 0"),
        (lambda: GARRegressor(epochs="all").fit(X, Y), "epochs='all' is not a whole number"),
        (lambda: quick(cv="auto").fit(X, Y, groups=[1] * 30), "cv=auto cannot split these rows"),
        (lambda: quick(time_limit=0).fit(X, Y), "time_limit=0; expected a number of seconds above 0"),
        (lambda: quick(time_limit=1e-9).fit(X, Y), "time_limit=1e-09 s was over before the first epoch"),
        (lambda: GARRegressor(time_limit=1e-9).fit(X, Y), "time_limit=1e-09 s was over before the first epoch"),
        (lambda: quick(epochs="all").fit(X, Y), "epochs='all' is not a whole number"),
        (lambda: quick(cv=GroupKFold(3)).fit(X, Y), r"needs fit\(X, y, groups=...\)"),
        (lambda: quick().fit(X, np.where(np.arange(30) < 2, Y, np.nan)), "has no validation row with a label"),
        (lambda: quick().fit(X, np.ones(30)), "target 0 is 1 in all rows"),
        (lambda: GARRegressor().fit(X, np.full((30, 1), np.nan)), "target 0 has no label at all"),
        (
            lambda: GARRegressor().fit(X, np.column_stack([Y, 1e160 * Y])),
            r"target 1 has the label -?\d.\d+e\+16., .* divide",
        ),
        (lambda: quick().fit(X, 1e160 * Y), r"target 0 has the label -?\d.\d+e\+16."),
        (lambda: quick().fit(1e160 * X, Y), r"x has a value of magnitude \d.\d+e\+160"),
        (lambda: GARRegressor(hidden_sizes="wide").fit(X, Y), "hidden_sizes='wide' is unknown"),
        (lambda: GARRegressor(batch_size=0).fit(X, Y), "batch_size=0"),
        (lambda: GARRegressor(alpha=-1.0).fit(X, Y), "alpha=-1"),
        (lambda: GARRegressor(loss_options={"delta": 1}).fit(X, Y), "loss_options has 'delta', but 'gar' takes alpha"),
        (lambda: GARRegressor(loss_options={"alpha": 1}).fit(X, Y), "alpha is given to the models and in loss_options"),
        (lambda: GARRegressor(device="gpu").fit(X, Y), "device='gpu' is not known to torch"),
        (lambda: GARRegressor(hidden_sizes=("a",)).fit(X, Y), "hidden_sizes='a' is not a whole number of 1 or more"),
        (lambda: quick(n_jobs=0).fit(X, Y), "workers=0"),
        (lambda: GARRegressor(learning_rate=0.0).fit(X, Y), "learning_rate holds 0"),
        (lambda: GARRegressor(optimizer="lbfgs").fit(X, Y), "optimizer='lbfgs' is unknown"),
        (lambda: GARRegressor(optimizer="sgd", learning_rate=1e30, loss="mse").fit(X, Y), "training diverged"),
        (lambda: GARRegressor(validation_fraction=1.0).fit(X, Y), "validation_fraction=1.0; expected a number between 0 and 1"),
        (lambda: GARRegressor(n_networks=0).fit(X, Y), "n_networks=0 is not a whole number of 1 or more"),
        (lambda: quick(optimizer="sgd", learning_rates=(1e30,), loss="mse").fit(X, Y), "training diverged for every combination"),
    ],
)
def test_misuse_is_explained(misuse: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        misuse()


@pytest.mark.parametrize("x", [sparse.csr_matrix(X), np.where(X > 1, np.inf, X), [["a"] * 5] * 30], ids=["sparse", "inf", "text"])
def test_unsuitable_tables_are_refused(x: Any) -> None:
    """Sparse, infinite and text: scikit-learn's own errors, before anything is trained."""
    with pytest.raises((TypeError, ValueError)):
        GARRegressor().fit(x, Y)
