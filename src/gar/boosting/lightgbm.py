"""LightGBM as a tree library."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gar.boosting.library import (
    LEAF_ROWS,
    Round,
    RoundSettings,
    StoppingSettings,
    TrainingTask,
    TreeLibrary,
    TreeSettings,
    leaf_rows,
)

_LOSSES = {"mae": "l1", "mse": "l2", "huber": "huber", "gar": "none"}
"""LightGBM's names of losses; a custom objective has none."""


class LightGBM(TreeLibrary):
    """LightGBM, which trains one target."""

    name = package = "lightgbm"
    error = "basic.LightGBMError"

    def train(self, task: TrainingTask, settings: StoppingSettings) -> tuple[Any, int, Any]:
        params = {
            **_params(settings),
            "num_leaves": 2 ** min(settings.max_depth, 16),
            "objective": task.objective,
            # A row that counts twice must equal two rows, so leaves and bins are limited by weights, never by counts.
            "min_sum_hessian_in_leaf": settings.min_child_weight,
            "min_data_in_leaf": 0,
            "min_data_in_bin": 1,
            **settings.options,
        }
        rows, valid = task.rows, task.valid
        start = np.full(len(rows.y), task.start)
        data = self.module.Dataset(rows.x, rows.y, weight=rows.weight, init_score=start, params={"verbose": -1})
        stopping: dict[str, Any] = {}
        if valid is not None:
            start = np.full(len(valid.y), task.start)
            held_out = data.create_valid(valid.x, valid.y, weight=valid.weight, init_score=start)
            patience = self.module.early_stopping(settings.patience, verbose=False)
            stopping = {"valid_sets": [held_out], "feval": task.metric, "callbacks": [patience]}
        booster = self.module.train(params, data, settings.rounds, **stopping)
        return booster, booster.current_iteration() if valid is None else booster.best_iteration, task.start

    def train_rounds(self, settings: RoundSettings, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]) -> Iterator[Round]:
        leaf = leaf_rows(len(x))
        params = {
            **_params(settings),
            "num_leaves": 2**settings.max_depth,
            "min_data_in_leaf": leaf,
            # LightGBM drops features that leaves of this size cannot split; GAR is an error if none is left. Small tables keep all.
            "feature_pre_filter": leaf == LEAF_ROWS,
            "bagging_fraction": settings.subsample,
            "bagging_freq": 1,
            "boost_from_average": False,
            "objective": _LOSSES[settings.loss],
        }
        if settings.loss == "huber":
            params["alpha"] = settings.parameter
        data = self.module.Dataset(x, y, params=params)
        booster, objective = self.module.Booster(params, data), settings.objective
        for index, other in enumerate(others):  # their labels are not used, but LightGBM requires some
            booster.add_valid(data.create_valid(other, np.zeros(len(other)), params=params), str(index))
        while True:
            booster.update(fobj=objective)
            yield Round(_cached_predictions(booster), booster)

    def to_text(self, booster: Any) -> str:
        return str(booster.model_to_string(num_iteration=-1))

    def from_text(self, text: str, features: int) -> Any:
        try:
            booster = self.module.Booster(model_str=text)
        except self.module.basic.LightGBMError as error:
            raise ValueError(str(error)) from error
        self.check_features(booster.num_feature(), features)
        return booster

    def predict(self, booster: Any, x: np.ndarray, rounds: int | None = None) -> np.ndarray:
        threads = {"num_threads": 1} if rounds is None else {}
        return np.asarray(booster.predict(x, num_iteration=rounds, **threads))


def _cached_predictions(booster: Any) -> list[np.ndarray]:
    """Return the predictions for validation sets that LightGBM updates in every round, and shows to metrics only."""
    collected: list[np.ndarray] = []

    def collect(pred: np.ndarray, _: Any) -> tuple[str, float, bool]:
        collected.append(pred.copy())
        return "collected", 0.0, True

    booster.eval_valid(collect)
    return collected


def _params(settings: TreeSettings) -> dict[str, Any]:
    return {
        "max_depth": settings.max_depth,
        "learning_rate": settings.learning_rate,
        "seed": settings.seed,
        "num_threads": settings.threads,
        "deterministic": True,
        "force_row_wise": True,
        "metric": "none",
        "verbose": -1,
    }
