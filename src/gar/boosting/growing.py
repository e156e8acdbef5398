"""Trees grown one round at a time, with predictions of other rows after each, in either library and with several losses.

The libraries' own loops choose a single number of rounds by a single metric. Here whoever calls sees every round, and stops when it
likes. Labels are expected around 0, where all trees start, and in units of about 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gar.boosting.libraries import imported
from gar.boosting.metrics import Library
from gar.boosting.objective import GARObjective

LOSSES = ("mae", "mse", "huber", "gar")
"""Those that trees can be grown with: they look at predictions alone, and have a curvature."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one model is grown, in one thread.

    Args:
        library: ``"xgboost"`` or ``"lightgbm"``.
        loss: one of :data:`LOSSES`.
        parameter: GAR's alpha or Huber's delta; None for the others.
        depth: of a tree.
        learning_rate: share of each step that is taken.
        subsample: share of the rows that each tree sees.
        seed: of these rows.
    """

    library: Library
    loss: str
    parameter: float | None
    depth: int
    learning_rate: float
    subsample: float
    seed: int


class Growth(Protocol):
    """Trees that are still growing."""

    def grow(self) -> None:
        """One more round."""

    def predictions(self) -> list[np.ndarray]:
        """Of each of the other tables, by all rounds until now."""

    def text(self) -> str:
        """The model in the library's own format, JSON or text."""


def growth(recipe: Recipe, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]) -> Growth:
    """Trees on features ``(rows, columns)`` and labels ``(rows,)``, of no rounds yet; ``others`` are features to predict for."""
    objective = None
    if recipe.loss == "gar":
        objective = GARObjective() if recipe.parameter is None else GARObjective(alpha=recipe.parameter)
    kind = _XGBoost if recipe.library == "xgboost" else _LightGBM
    return kind(recipe, objective, x, y, others)


class _XGBoost:
    def __init__(
        self, recipe: Recipe, objective: GARObjective | None, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]
    ) -> None:
        xgboost = imported("xgboost")
        params = {
            "max_depth": recipe.depth,
            "learning_rate": recipe.learning_rate,
            "min_child_weight": 5.0,  # with 1, the library's own, trees of a noisy table learn it by heart; LightGBM has 20 rows
            "subsample": recipe.subsample,
            "seed": recipe.seed,
            "seed_per_iteration": True,  # all boosters share one generator, and would disturb each other
            "nthread": 1,
            "base_score": 0.0,
            "disable_default_eval_metric": True,
            **self._loss(recipe),
        }
        self._data = xgboost.DMatrix(x, y, nthread=1)
        self._others = [xgboost.DMatrix(other, nthread=1) for other in others]
        self._booster = xgboost.Booster(params, [self._data, *self._others])  # which keeps what it has predicted for these
        self._objective, self._rounds = objective, 0

    @staticmethod
    def _loss(recipe: Recipe) -> Mapping[str, Any]:
        if recipe.loss == "huber":
            return {"objective": "reg:pseudohubererror", "huber_slope": 1.0 if recipe.parameter is None else recipe.parameter}
        return {"objective": "reg:absoluteerror" if recipe.loss == "mae" else "reg:squarederror"}

    def grow(self) -> None:
        self._booster.update(self._data, self._rounds, fobj=self._objective)
        self._rounds += 1

    def predictions(self) -> list[np.ndarray]:
        return [self._booster.predict(other, output_margin=True) for other in self._others]

    def text(self) -> str:
        return bytes(self._booster.save_raw("json")).decode()


class _LightGBM:
    def __init__(
        self, recipe: Recipe, objective: GARObjective | None, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]
    ) -> None:
        lightgbm = imported("lightgbm")
        params = {
            "max_depth": recipe.depth,
            "num_leaves": 2**recipe.depth,
            "learning_rate": recipe.learning_rate,
            "bagging_fraction": recipe.subsample,
            "bagging_freq": 1,
            "seed": recipe.seed,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "boost_from_average": False,
            "metric": "none",
            "verbose": -1,
            **self._loss(recipe),
        }
        data = lightgbm.Dataset(x, y, params=params)
        self._booster = lightgbm.Booster(params, data)
        for place, other in enumerate(others):  # no label of theirs is looked at, but the library insists on some
            self._booster.add_valid(data.create_valid(other, np.zeros(len(other)), params=params), str(place))
        self._objective = objective

    @staticmethod
    def _loss(recipe: Recipe) -> Mapping[str, Any]:
        if recipe.loss == "huber":
            return {"objective": "huber", "alpha": 1.0 if recipe.parameter is None else recipe.parameter}
        return {"objective": {"mae": "l1", "mse": "l2", "gar": "none"}[recipe.loss]}

    def grow(self) -> None:
        self._booster.update(fobj=self._objective)

    def predictions(self) -> list[np.ndarray]:
        seen: list[np.ndarray] = []

        def remember(pred: np.ndarray, _: Any) -> tuple[str, float, bool]:
            seen.append(pred.copy())
            return "seen", 0.0, True

        self._booster.eval_valid(remember)
        return seen

    def text(self) -> str:
        return str(self._booster.model_to_string(num_iteration=-1))
