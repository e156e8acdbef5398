"""XGBoost as a tree library."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from gar.boosting.library import Round, RoundSettings, StoppingSettings, TrainingTask, TreeLibrary, TreeSettings, leaf_rows

MIN_CHILD_WEIGHT = 5.0
"""Weight that a leaf needs in a comparison; with 1, XGBoost's own default, trees overfit a noisy table."""
_LOSSES = {"mae": "reg:absoluteerror", "mse": "reg:squarederror", "huber": "reg:pseudohubererror", "gar": "reg:squarederror"}
"""XGBoost's names of losses; a custom objective replaces that of GAR."""


class XGBoost(TreeLibrary):
    """XGBoost, which trains several targets together."""

    name = package = "xgboost"
    error, suffix = "core.XGBoostError", "json"
    multi_output = True

    def train(self, task: TrainingTask, settings: StoppingSettings) -> tuple[Any, int, Any]:
        params = {**_params(settings, settings.min_child_weight), "base_score": task.start, **settings.options}
        parts = [part for part in (task.rows, task.valid) if part is not None]
        data = [self.module.DMatrix(part.x, part.y, weight=part.weight, nthread=settings.threads) for part in parts]
        stopping: dict[str, Any] = {}
        if task.valid is not None:
            stopping = {"evals": [(data[1], "valid")], "custom_metric": task.metric, "early_stopping_rounds": settings.patience}
        booster = self.module.train(params, data[0], settings.rounds, obj=task.objective, verbose_eval=False, **stopping)
        return booster, booster.num_boosted_rounds() if task.valid is None else booster.best_iteration + 1, 0.0

    def metric_result(self, name: str, value: float, *, larger_is_better: bool, from_sklearn: bool) -> Any:
        """Return ``1 - value`` where larger is better: XGBoost minimises metrics."""
        if larger_is_better:
            name, value = f"1-{name}", 1.0 - value
        return value if from_sklearn else (name, value)

    def train_rounds(self, settings: RoundSettings, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]) -> Iterator[Round]:
        params = {
            **_params(settings, min(MIN_CHILD_WEIGHT, float(leaf_rows(len(x))))),
            "subsample": settings.subsample,
            "seed_per_iteration": True,  # all boosters share one random generator, and would disturb each other
            "base_score": 0.0,
            "objective": _LOSSES[settings.loss],
        }
        if settings.loss == "huber":
            params["huber_slope"] = settings.parameter
        data, *tables = [self.module.DMatrix(*part, nthread=settings.threads) for part in ((x, y), *((other,) for other in others))]
        booster, objective = self.module.Booster(params, [data, *tables]), settings.objective  # it caches predictions for these
        for index in count():
            booster.update(data, index, fobj=objective)
            yield Round([booster.predict(table, output_margin=True) for table in tables], booster)

    def to_text(self, booster: Any) -> str:
        return bytes(booster.save_raw("json")).decode()

    def from_text(self, text: str, features: int) -> Any:
        booster = self.module.Booster({"nthread": 1})
        booster.load_model(bytearray(text.encode()))
        self.check_features(booster.num_features(), features)
        return booster

    def predict(self, booster: Any, x: np.ndarray, rounds: int | None = None) -> np.ndarray:
        return np.asarray(booster.inplace_predict(x, iteration_range=(0, rounds or 0)), dtype=np.float64)


def _params(settings: TreeSettings, min_child_weight: float) -> dict[str, Any]:
    return {
        "max_depth": settings.max_depth,
        "learning_rate": settings.learning_rate,
        "min_child_weight": min_child_weight,
        "seed": settings.seed,
        "nthread": settings.threads,
        "disable_default_eval_metric": True,
    }
