"""Trees grown one round at a time, with predictions of other rows after each, in either library and with several losses.

The libraries' own loops choose a single number of rounds by a single metric. Here whoever calls sees every round, and stops when it
likes. Labels are expected around 0, where all trees start, and in units of about 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gar.boosting.libraries import explained, imported
from gar.boosting.metrics import Library
from gar.boosting.objective import GARObjective

LOSSES = ("mae", "mse", "huber", "gar")
"""Those that trees can be grown with: they look at predictions alone, and have a curvature."""
LEAF, WEIGHT = 20, 5.0
"""What a leaf needs: rows of LightGBM, which is the library's own choice, and weight of XGBoost, where 1, the library's own, lets
trees learn a noisy table by heart."""
_LEAVES = 4
"""A leaf needs no more than one of so many parts of the rows, so that small tables can be split too."""


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


def rows_in_leaf(rows: int) -> int:
    """How many of so many training rows a leaf of LightGBM needs; XGBoost takes no more for its weight.

    Example:
        >>> [rows_in_leaf(rows) for rows in (1000, 80, 40, 3)]
        [20, 20, 10, 1]
    """
    return min(LEAF, max(1, rows // _LEAVES))


def growth(recipe: Recipe, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]) -> Growth:
    """Trees on features ``(rows, columns)`` and labels ``(rows,)``, of no rounds yet; ``others`` are features to predict for."""
    objective = None
    if recipe.loss == "gar":
        objective = GARObjective() if recipe.parameter is None else GARObjective(alpha=recipe.parameter)
    kind = _XGBoost if recipe.library == "xgboost" else _LightGBM
    with explained(recipe.library):
        return kind(recipe, objective, x, y, others)


class _XGBoost:
    def __init__(
        self, recipe: Recipe, objective: GARObjective | None, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]
    ) -> None:
        xgboost = imported("xgboost")
        params = {
            "max_depth": recipe.depth,
            "learning_rate": recipe.learning_rate,
            "min_child_weight": min(WEIGHT, float(rows_in_leaf(len(x)))),
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
        with explained("xgboost"):
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
            **self._leaves(len(x)),
            **self._loss(recipe),
        }
        data = lightgbm.Dataset(x, y, params=params)
        self._booster = lightgbm.Booster(params, data)
        for place, other in enumerate(others):  # no label of theirs is looked at, but the library insists on some
            self._booster.add_valid(data.create_valid(other, np.zeros(len(other)), params=params), str(place))
        self._objective = objective

    @staticmethod
    def _leaves(rows: int) -> Mapping[str, Any]:
        """Smaller leaves for a small table. Features are not looked over beforehand there: GAR would get an error if none was left,
        as happens below twice the rows of a leaf."""
        return {} if rows_in_leaf(rows) == LEAF else {"min_data_in_leaf": rows_in_leaf(rows), "feature_pre_filter": False}

    @staticmethod
    def _loss(recipe: Recipe) -> Mapping[str, Any]:
        if recipe.loss == "huber":
            return {"objective": "huber", "alpha": 1.0 if recipe.parameter is None else recipe.parameter}
        return {"objective": {"mae": "l1", "mse": "l2", "gar": "none"}[recipe.loss]}

    def grow(self) -> None:
        with explained("lightgbm"):
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
