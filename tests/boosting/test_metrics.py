"""Early stopping by correlations and by GAR, in both libraries."""

from inspect import signature
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch
import xgboost
from scipy import stats

from gar import InputError
from gar.boosting import EarlyStoppingMetric, GARObjective
from gar.boosting.metrics import correlation_within
from gar.functional import gar_loss


def rows(ties: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y, pred = random.normal(size=(2, 200))
    groups = random.integers(0, 9, 200)
    return (np.round(y), np.round(pred + y), groups) if ties else (y, pred + y, groups)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("ranked", [False, True])
def test_correlations_are_those_of_scipy(ties: bool, ranked: bool) -> None:
    y, pred, groups = rows(ties)
    expected = stats.spearmanr if ranked else stats.pearsonr
    assert correlation_within(pred, y, np.zeros(200, int), ranked=ranked) == pytest.approx(expected(pred, y)[0], abs=1e-12)
    each = [expected(pred[groups == g], y[groups == g])[0] for g in range(9)]
    assert correlation_within(pred, y, groups, ranked=ranked) == pytest.approx(np.mean(each), abs=1e-12)
    counts = np.random.default_rng(1).integers(0, 3, 200)
    copies = np.repeat(np.arange(200), counts)
    weighted = correlation_within(pred, y, groups, counts.astype(float), ranked=ranked)
    assert weighted == pytest.approx(correlation_within(pred[copies], y[copies], groups[copies], ranked=ranked), abs=1e-12)


def test_groups_without_differences_do_not_count() -> None:
    y, pred, groups = rows()
    whole = correlation_within(pred, y, groups)
    more = (np.append(pred, [1.0, 2.0, 3.0]), np.append(y, [0.1, 0.1, 5.0]), np.append(groups, [20, 20, 21]))
    assert correlation_within(*more) == pytest.approx(whole, abs=1e-12)
    assert correlation_within(np.full(200, 0.1), y, groups) == 0.0
    assert correlation_within(pred, np.full(200, 0.1), groups) == 0.0


def test_gar_is_the_loss() -> None:
    y, pred, _ = rows()
    expected = gar_loss(torch.from_numpy(pred), torch.from_numpy(y), alpha=0.5, components=("mae", "diff")).item()
    metric = EarlyStoppingMetric("gar", library="lightgbm", alpha=0.5, components=("mae", "diff"))
    assert metric(y, pred) == ("gar", pytest.approx(expected), False)


def test_each_library_gets_what_it_expects() -> None:
    y, pred, _ = rows()
    rho = float(np.corrcoef(y, pred)[0, 1])
    data = xgboost.DMatrix(np.zeros((200, 1)), y)
    assert EarlyStoppingMetric("pearson", library="xgboost")(pred, data) == ("1-pearson", pytest.approx(1 - rho, abs=1e-6))
    assert EarlyStoppingMetric("pearson", library="xgboost")(y, pred) == pytest.approx(1 - rho)
    assert EarlyStoppingMetric("pearson", library="lightgbm")(y, pred, None) == ("pearson", pytest.approx(rho), True)


def table() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 5))
    return x, x[:, 0] + np.sin(3 * x[:, 1]) + random.normal(size=300)


@pytest.mark.parametrize("name", ["pearson", "spearman", "gar"])
def test_early_stopping_in_all_four_ways(name: Any) -> None:
    """The noise makes more rounds worse: all four stop, and at the round with the best value of their history."""
    x, y = table()
    objective = GARObjective()
    start = objective.starting_score(y[:200])
    metric = EarlyStoppingMetric(name, library="xgboost")
    params = {"base_score": start, "disable_default_eval_metric": True, "nthread": 1}
    data, valid = xgboost.DMatrix(x[:200], y[:200]), xgboost.DMatrix(x[200:], y[200:])
    history: dict[str, Any] = {}
    one = xgboost.train(
        params,
        data,
        200,
        obj=objective,
        custom_metric=metric,
        evals=[(valid, "valid")],
        early_stopping_rounds=10,
        evals_result=history,
        verbose_eval=False,
    )
    values = history["valid"][metric.__name__]
    assert one.best_iteration == int(np.argmin(values)) < 190
    two = xgboost.XGBRegressor(
        objective=objective,
        eval_metric=metric,
        early_stopping_rounds=10,
        n_estimators=200,
        n_jobs=1,
        base_score=start,
        disable_default_eval_metric=True,
    )
    assert two.fit(x[:200], y[:200], eval_set=[(x[200:], y[200:])], verbose=False).best_iteration == one.best_iteration
    other = EarlyStoppingMetric(name, library="lightgbm")
    stop = lightgbm.early_stopping(10, verbose=False)
    train_set = lightgbm.Dataset(x[:200], y[:200], init_score=np.full(200, start))
    valid_set = train_set.create_valid(x[200:], y[200:], init_score=np.full(100, start))
    quiet = {"objective": objective, "metric": "none", "verbose": -1, "num_threads": 1}
    three = lightgbm.train(quiet, train_set, 200, valid_sets=[valid_set], feval=other, callbacks=[stop])
    four = lightgbm.LGBMRegressor(objective=objective, metric="none", n_estimators=200, n_jobs=1, verbose=-1)
    is_new = "eval_X" in signature(four.fit).parameters
    unseen: dict[str, Any] = {"eval_X": (x[200:],), "eval_y": (y[200:],)} if is_new else {"eval_set": [(x[200:], y[200:])]}
    four.fit(
        x[:200],
        y[:200],
        init_score=np.full(200, start),
        **unseen,
        eval_init_score=[np.full(100, start)],
        eval_metric=other,
        callbacks=[stop],
    )
    assert three.best_iteration == four.best_iteration_ < 190


def test_bad_input() -> None:
    y, pred, groups = rows()
    with pytest.raises(InputError, match="metric='mae' is unknown"):
        EarlyStoppingMetric("mae", library="xgboost")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="library='catboost' is unknown"):
        EarlyStoppingMetric("gar", library="catboost")
    with pytest.raises(InputError, match="groups has 200 values, but there are 100 rows"):
        EarlyStoppingMetric("pearson", library="xgboost", groups=groups)(y[:100], pred[:100])
