"""Distributed training: trees of two real workers are those of one, and what cannot be summed is refused."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gar.boosting import EarlyStoppingMetric, GARObjective
from gar.errors import InputError

dask = pytest.importorskip("dask", reason="the extra 'dask' is not installed")
distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
dask_array = pytest.importorskip("dask.array", reason="the extra 'dask' is not installed")
xgboost = pytest.importorskip("xgboost", reason="the extra 'boosting' is not installed")
xgboost_dask = pytest.importorskip("xgboost.dask", reason="the extra 'dask' is not installed")
lightgbm = pytest.importorskip("lightgbm", reason="the extra 'boosting' is not installed")

OPTIONS = {"max_depth": 3, "eta": 0.3, "disable_default_eval_metric": True, "nthread": 1, "tree_method": "hist"}


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def table(targets: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of few values, whose bins do not depend on how rows are spread; workers' labels differ in level and scale."""
    random = np.random.default_rng(0)
    x = random.integers(0, 12, (600, 4)).astype(float)
    y = np.sin(x[:, 0]) + 0.3 * x[:, 1] + 0.1 * random.normal(size=600)
    x[:200, 3], y[:200] = 12.0, 5 * y[:200] + 20
    labels = y if targets == 1 else np.stack([y, -y + x[:, 2]], axis=1)
    return x, labels, random.integers(1, 4, 600).astype(float)


def chunks(client: Any, values: np.ndarray) -> Any:
    """Return rows of which the first 200 are on one worker and the others on another; left to itself, Dask may use one for all."""
    parts = zip(np.split(values, [200]), client.scheduler_info()["workers"], strict=True)
    placed = [(part, client.scatter(part, workers=[worker], hash=False)) for part, worker in parts]
    return dask_array.concatenate([dask_array.from_delayed(dask.delayed(one), part.shape, part.dtype) for part, one in placed])


def trained(train: Callable[..., Any], data: Any, objective: Any, start: Any, **options: Any) -> Any:
    return train({**OPTIONS, "base_score": start}, data, num_boost_round=12, obj=objective, **options)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_of_two_workers_are_those_of_one(two: Any, targets: int, weighted: bool) -> None:
    x, y, weight = table(targets)
    objective = GARObjective(alpha=0.5)
    start = objective.starting_score(y)
    own = {"weight": weight} if weighted else {}
    alone = trained(xgboost.train, xgboost.DMatrix(x, y, **own), objective, start)
    shared = {name: chunks(two, values) for name, values in own.items()}
    data = xgboost_dask.DaskDMatrix(two, chunks(two, x), chunks(two, y), **shared)
    together = trained(lambda *args, **kw: xgboost_dask.train(two, *args, **kw), data, objective, start)["booster"]
    expected = alone.predict(xgboost.DMatrix(x))
    np.testing.assert_allclose(together.predict(xgboost.DMatrix(x)), expected, rtol=1e-4, atol=1e-4)
    assert np.corrcoef(expected.ravel(), y.ravel())[0, 1] > 0.95


@pytest.mark.parametrize("name", ["gar", "pearson"])
def test_metrics_are_of_the_rows_of_all_workers(two: Any, name: Any) -> None:
    x, y, _ = table()
    objective, metric = GARObjective(), EarlyStoppingMetric(name, library="xgboost")
    start = objective.starting_score(y)
    histories: dict[str, Any] = {}
    data = xgboost.DMatrix(x, y)
    trained(
        xgboost.train,
        data,
        objective,
        start,
        evals=[(data, "rows")],
        custom_metric=metric,
        evals_result=histories,
        verbose_eval=False,
    )
    shared = xgboost_dask.DaskDMatrix(two, chunks(two, x), chunks(two, y))
    found = trained(
        lambda *args, **kw: xgboost_dask.train(two, *args, **kw),
        shared,
        objective,
        start,
        evals=[(shared, "rows")],
        custom_metric=metric,
    )
    for key, values in histories["rows"].items():
        np.testing.assert_allclose(found["history"]["rows"][key], values, rtol=1e-4)


def test_groups_of_rows_on_several_workers_are_refused(two: Any) -> None:
    x, y, _ = table()
    data = xgboost_dask.DaskDMatrix(two, chunks(two, x), chunks(two, y))
    with pytest.raises(InputError, match="leave groups out"):
        xgboost_dask.train(two, OPTIONS, data, 2, obj=GARObjective(groups=np.arange(600) % 7))


@pytest.mark.filterwarnings("ignore:Parameter n_jobs will be ignored")
def test_lightgbm_with_several_machines_is_refused(two: Any) -> None:
    x, y, _ = table()
    model = lightgbm.DaskLGBMRegressor(objective=GARObjective(), n_estimators=2, client=two)
    with pytest.raises(InputError, match="LightGBM trains with 2 machines"):
        model.fit(chunks(two, x), chunks(two, y))
