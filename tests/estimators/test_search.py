"""What a search spends on a table: budgets, time limits, groups, scores, and the choice of networks for the ensemble."""

import time
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import clone, config_context
from sklearn.model_selection import GroupKFold, cross_validate

from gar import GARRegressor, GARRegressorCV
from gar.estimators.budget import Budget
from gar.estimators.halving import CandidateTrainer, greedy_choice, with_fewer_rows
from gar.estimators.presets import batch_size_for, epochs_for, finalists_for
from gar.group_metrics import within_groups
from gar.search import RunContext
from gar.stack import StackData
from tests.estimators.test_estimators import quick, table


def test_more_rows_are_passed_over_less_often_in_larger_batches() -> None:
    rows = [100, 4000, 10_000, 100_000, 1_000_000]
    epochs, sizes = [epochs_for(count) for count in rows], [batch_size_for(count) for count in rows]
    assert epochs[:2] == [60, 60]
    assert epochs == sorted(epochs, reverse=True)
    assert sizes[:2] == [32, 32]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 512
    seen = [count * passes for count, passes in zip(rows, epochs, strict=True)]
    assert seen == sorted(seen)  # more rows are still more training
    assert [finalists_for(count) for count in (8000, 8001)] == [3, 2]


@pytest.mark.parametrize("cost", [1.0, 1e5, 1e6, 1e7, 1e9])
def test_a_budget_is_cut_to_what_is_affordable(cost: float) -> None:
    planned = Budget(epochs=20, finalists=4, folds=5, rows=100_000)
    cut = planned.within(cost)
    assert all(1 <= own <= full for own, full in zip(cut, planned, strict=True))
    assert cut.cost <= max(cost, Budget(epochs=5, finalists=1, folds=1, rows=1000).cost)
    assert (cut == planned) == (cost >= planned.cost)
    assert (cut.difference(planned) == "") == (cut == planned)


def test_fewer_rows_are_drawn_from_every_part() -> None:
    x = np.arange(100.0)[:, None]
    data = StackData(x, x, [(np.arange(80), np.arange(80, 100), [])], scale_features=True)
    small = with_fewer_rows(data, 10, 5, seed=0)
    assert [len(small.folds[0].train), len(small.folds[0].valid)] == [10, 5]
    assert set(small.folds[0].train) < set(range(80))
    assert small.folds[0].features is data.folds[0].features
    assert with_fewer_rows(data, 80, 20, seed=0) is data


def test_trials_of_a_large_table_see_few_rows_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gar.estimators.regressor_cv.SMALL_ROWS", 50)
    x, y = table(300)
    model = quick(n_finalists=1, verbose=False).fit(x, y)
    assert model.cv_results_["epochs"].max() == 20
    assert model.score(x, y) > 0.9


def test_large_tables_are_split_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gar.estimators.regressor_cv.LARGE_ROWS", 100)
    x, y = table()
    model = quick(cv="auto", epochs=2).fit(x, y)
    assert {"split1_test_score", "split2_test_score"} & set(model.cv_results_) == {"split1_test_score"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_time_limit_is_kept_and_reported(jobs: int) -> None:
    """Without the limit this search takes several times as long."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1500, 10))
    y = x[:, 0] + np.sin(2 * x[:, 1])
    if jobs > 1:
        RunContext(workers=jobs).start_workers()
    start = time.monotonic()
    with pytest.warns(UserWarning, match=r"time_limit=3 s was too short .* epochs"):
        model = GARRegressorCV(time_limit=3, random_state=0, n_jobs=jobs).fit(x, y)
    assert time.monotonic() - start < 6.0  # an epoch is short, but other tests share the cores
    assert model.score(x, y) > 0.5


def test_no_time_for_a_refit_leaves_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = table()
    train_stack: Any = CandidateTrainer.train_stack

    def without_time(trainer: Any, *given: Any, **more: Any) -> Any:
        *stack, deadline = given
        return train_stack(trainer, *stack, 0.0 if "keep_final" in more else deadline, **more)

    monkeypatch.setattr(CandidateTrainer, "train_stack", without_time)
    with pytest.warns(UserWarning, match="was over before refit='best': the mean predicts"):
        model = quick(refit="best", time_limit=1000).fit(x, y)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(x), quick().fit(x, y).predict(x))


def test_one_estimator_keeps_its_limit() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(4000, 5))
    start = time.monotonic()
    with pytest.warns(UserWarning, match=r"time_limit=1 s: \d of 5 networks were trained, for \d+ of 60 epochs"):
        model = GARRegressor(time_limit=1, random_state=0).fit(x, x[:, 0])
    assert time.monotonic() - start < 4.0
    assert model.score(x, x[:, 0]) > 0.5


def test_a_limit_that_is_long_enough_changes_nothing() -> None:
    x, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limited = quick(time_limit=1000).fit(x, y)
    np.testing.assert_array_equal(limited.predict(x), quick().fit(x, y).predict(x))


def test_groups_are_never_split() -> None:
    x, y = table(60)
    groups = np.repeat(["a", "b", "c", "d", "e", "f"], 10)
    seen = []

    class Recording(GARRegressorCV):
        def _splits(self, rows: Any, groups: Any, seed: int) -> Any:
            seen.extend(super()._splits(rows, groups, seed))
            return seen

    for cv in (3, "auto", GroupKFold(3)):
        seen.clear()
        Recording(**{**quick(epochs=1).get_params(), "cv": cv}).fit(x, y, groups=groups)
        assert len(seen) == (5 if cv == "auto" else 3)
        assert all(not set(groups[train]) & set(groups[valid]) for train, valid in seen)


def test_groups_are_routed_through_cross_validation() -> None:
    x, y = table(60)
    groups = np.repeat(np.arange(6), 10)
    with config_context(enable_metadata_routing=True):
        model = quick(epochs=1, cv=GroupKFold(2)).set_fit_request(groups=True)
        scores = cross_validate(model, x, y, cv=GroupKFold(3), params={"groups": groups})
    assert len(scores["test_score"]) == 3
    assert np.isfinite(scores["test_score"]).all()


def days(count: int, seed: int, rows: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Days with a common shock, ten times as large as what the features say."""
    random = np.random.default_rng(seed)
    day, x = np.repeat(np.arange(count), rows), random.normal(size=(count * rows, 3))
    return x, x[:, 0] - x[:, 1] + 14 * random.normal(size=count)[day], day


@pytest.mark.parametrize("model", [GARRegressor(epochs=20, random_state=0), quick(epochs=20, learning_rates=(1e-2,))])
def test_pair_groups_see_what_shocks_hide(model: Any) -> None:
    x, y, day = days(30, 0)
    new, truth, new_day = days(20, 1)

    def daily(fitted: Any) -> float:
        predicted = torch.from_numpy(fitted.predict(new))
        return float(within_groups(predicted, torch.from_numpy(truth), torch.from_numpy(new_day))["pearson"])

    assert daily(clone(model).fit(x, y)) < 0.9
    assert daily(clone(model).fit(x, y, pair_groups=[f"day {number}" for number in day])) > 0.95


def test_rows_of_a_pair_group_are_held_out_together() -> None:
    x, y, day = days(30, 0, rows=6)
    seen = []

    class Recording(GARRegressorCV):
        def _splits(self, rows: Any, groups: Any, seed: int) -> Any:
            seen.extend(super()._splits(rows, groups, seed))
            return seen

    model = Recording(**quick(epochs=1, cv=3).get_params()).fit(x, y, pair_groups=day)
    assert model.scoring_ == "pearson"
    assert all(not set(day[train]) & set(day[valid]) for train, valid in seen)
    for train, valid in GARRegressor()._splits(len(day), 0, day):
        assert len(set(day[train]) & set(day[valid])) <= 2  # where one network's part ends


def test_equal_rows_of_different_pair_groups_are_not_merged() -> None:
    x, y, day = days(8, 0)
    twice, weight = np.tile(np.arange(len(y)), 2), np.full(len(y), 2.0)
    model = GARRegressor(epochs=2, random_state=0)
    copies = clone(model).fit(x[twice], y[twice], pair_groups=day[twice])
    np.testing.assert_array_equal(copies.predict(x), clone(model).fit(x, y, weight, pair_groups=day).predict(x))
    apart = clone(model).fit(x[twice], y[twice], pair_groups=np.arange(len(twice)) % 13)
    assert not np.array_equal(copies.predict(x), apart.predict(x))


def test_pair_groups_without_partners_are_scored_by_absolute_errors() -> None:
    x, y = table(60)
    with pytest.warns(UserWarning, match="0 validation rows, too few to choose by pearson"):
        model = quick(epochs=1).fit(x, y, pair_groups=np.arange(60))
    assert model.scoring_ == "mae"
    alone = GARRegressor(epochs=20, random_state=0).fit(x, y, pair_groups=np.arange(60))
    assert alone.score(x, y) > 0.5  # absolute errors are left to learn from
    with pytest.warns(UserWarning, match="0 validation rows, too few to choose by pearson"):
        quick(epochs=1).fit(x, np.repeat(y[:20], 3), pair_groups=np.arange(60) // 3)  # one label in each


def test_pair_groups_are_routed_through_cross_validation() -> None:
    x, y, day = days(6, 0, rows=10)
    with config_context(enable_metadata_routing=True):
        model = quick(epochs=1).set_fit_request(groups=True, pair_groups=True)
        scores = cross_validate(model, x, y, cv=GroupKFold(3), params={"groups": day, "pair_groups": day})
    assert np.isfinite(scores["test_score"]).all()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("neg_mean_absolute_error", "mae"), ("neg_root_mean_squared_error", "rmse"), ("neg_mean_squared_error", "rmse"), ("r2", "r2")],
)
def test_names_of_scikit_learn_choose_the_same(theirs: str, ours: str) -> None:
    x, y = table(60)
    named, own = (quick(scoring=scoring, epochs=3).fit(x, y) for scoring in (theirs, ours))
    assert named.scoring_ == ours
    np.testing.assert_array_equal(named.predict(x), own.predict(x))


def test_a_fold_of_equal_labels_is_scored_by_mae() -> None:
    x, y = table(60)
    y[:20] = 7.0
    splits = [(np.arange(20, 60), np.arange(20)), (np.arange(40), np.arange(40, 60))]
    with pytest.warns(UserWarning, match="a fold has validation rows of one label only, .* 'mae' is used instead"):
        model = quick(cv=splits, scoring="pearson").fit(x, y)
    assert model.scoring_ == "mae"


def test_greedy_choice_finds_the_best_mean() -> None:
    """Two networks with opposite errors are better together than the best one alone, and a bad one is left out."""
    target = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
    noise = torch.sin(37 * target)
    predictions = torch.stack([target + noise, target - noise, target + 0.5 * noise, target + 9.0])
    chosen = greedy_choice(predictions, target, None, "mae")
    assert 3 not in chosen
    mean = predictions[chosen].mean(0)
    assert (mean - target).abs().mean() < 0.1 * (predictions[2] - target).abs().mean()
    doubled = greedy_choice(predictions, target, torch.full((50,), 2.0, dtype=torch.float64), "mae")
    assert doubled == chosen
