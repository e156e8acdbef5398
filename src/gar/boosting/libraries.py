"""Training with GAR in either library, from the same few settings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np

from gar.boosting.label_scale import Unit, unit_of
from gar.boosting.metrics import EarlyStoppingMetric, Library
from gar.boosting.objective import GARObjective
from gar.errors import InputError


class Table(NamedTuple):
    """Features ``(rows, columns)``, labels ``(rows,)`` or ``(rows, targets)``, and weights ``(rows,)`` or None."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How trees are grown, in words that both libraries know."""

    rounds: int
    learning_rate: float
    max_depth: int
    min_child_weight: float
    seed: int
    threads: int
    patience: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


class Trees(Protocol):
    """Trees that predict in the unit of the labels they were grown on."""

    @property
    def booster(self) -> Any: ...
    @property
    def rounds(self) -> int: ...
    def predict(self, x: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Trained:
    """Trees, and the unit of the labels they were grown on; they predict in the unit of the labels that were given."""

    trees: Trees
    unit: Unit

    @property
    def booster(self) -> Any:
        return self.trees.booster

    @property
    def rounds(self) -> int:
        return self.trees.rounds

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.unit.undone(self.trees.predict(x))


def train(
    library: Library, table: Table, valid: Table | None, objective: GARObjective, metric: EarlyStoppingMetric, plan: Plan
) -> Trained:
    """Grow trees on a table; with a second one, until the metric there has not improved for ``plan.patience`` rounds."""
    median = objective.starting_score(table.y, table.weight)
    unit = unit_of(table.y, table.weight, median)
    table, valid = _in_unit(table, unit), None if valid is None else _in_unit(valid, unit)
    grow = _train_xgboost if library == "xgboost" else _train_lightgbm
    with explained(library):
        trees = grow(table, valid, _rounded(objective), metric, plan, unit.of(median).tolist())
    return Trained(trees, unit)


def imported(library: Library) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise InputError(f"{library} is not installed; use pip install 'gar[boosting]'") from error


@contextmanager
def explained(library: Library) -> Iterator[None]:
    """What the library refuses is an error of ours, in the first line of its words, without the place in its source."""
    module = imported(library)
    refusal = module.core.XGBoostError if library == "xgboost" else module.basic.LightGBMError
    try:
        yield
    except refusal as error:
        reason = str(error).strip().partition("\n")[0].partition(" at /")[0]
        raise InputError(f"{library} cannot grow these trees: {reason}") from error


def _in_unit(table: Table, unit: Unit) -> Table:
    return table._replace(y=unit.of(table.y))


Objective = Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray]]
_BITS = 16
"""So many bits of a row's gradient are kept: up to 256 times as much is still exact in single precision, which libraries take."""


def _rounded(objective: GARObjective) -> Objective:
    """The objective with gradients of few bits, before weights, whose sums are exact.

    Splits often tie in small tables, and then the rounding of sums would choose. So it does not depend on the order of rows or on
    threads, and a row that counts twice is exactly as good as two rows.
    """

    def rounded(pred: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        given = data.get_weight()
        given = None if given is None or len(given) == 0 else given
        weight = np.float64(1) if given is None else np.asarray(given, dtype=np.float64).reshape(-1, 1)
        label = np.asarray(data.get_label()).reshape(pred.shape)
        exact = objective(label, pred, given)  # in double precision
        gradient, curvature = (weight * _few_bits(v.reshape(len(pred), -1) / weight) for v in exact)
        return gradient.reshape(pred.shape), curvature.reshape(pred.shape)

    return rounded


def _few_bits(values: np.ndarray) -> np.ndarray:
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(fraction, _BITS)), exponent - _BITS))


@dataclass(frozen=True)
class _XGBoost:
    booster: Any
    rounds: int

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.booster.inplace_predict(x, iteration_range=(0, self.rounds)), dtype=np.float64)


def _train_xgboost(
    table: Table, valid: Table | None, objective: Objective, metric: EarlyStoppingMetric, plan: Plan, start: Any
) -> _XGBoost:
    xgboost = imported("xgboost")
    params = {
        "learning_rate": plan.learning_rate,
        "max_depth": plan.max_depth,
        "min_child_weight": plan.min_child_weight,
        "seed": plan.seed,
        "nthread": plan.threads,
        "base_score": start,
        "disable_default_eval_metric": True,
        **plan.options,
    }
    data = [
        xgboost.DMatrix(part.x, part.y, weight=part.weight, nthread=plan.threads) for part in (table, valid) if part is not None
    ]
    stopping: dict[str, Any] = {}
    if valid is not None:
        stopping = {"evals": [(data[1], "valid")], "custom_metric": metric, "early_stopping_rounds": plan.patience}
    booster = xgboost.train(params, data[0], plan.rounds, obj=objective, verbose_eval=False, **stopping)
    return _XGBoost(booster, booster.best_iteration + 1 if valid is not None else booster.num_boosted_rounds())


@dataclass(frozen=True)
class _LightGBM:
    booster: Any
    rounds: int
    start: float

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.start + self.booster.predict(x, num_iteration=self.rounds))


def _train_lightgbm(
    table: Table, valid: Table | None, objective: Objective, metric: EarlyStoppingMetric, plan: Plan, start: Any
) -> _LightGBM:
    lightgbm = imported("lightgbm")
    params = {
        "objective": objective,
        "metric": "none",
        "learning_rate": plan.learning_rate,
        "max_depth": plan.max_depth,
        "num_leaves": 2 ** min(plan.max_depth, 16),
        # A row that counts twice must be as good as two rows, so nothing may be counted but weights.
        "min_sum_hessian_in_leaf": plan.min_child_weight,
        "min_data_in_leaf": 0,
        "min_data_in_bin": 1,
        "seed": plan.seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": plan.threads,
        "verbose": -1,
        **plan.options,
    }
    data = lightgbm.Dataset(table.x, table.y, weight=table.weight, init_score=np.full(len(table.y), start), params={"verbose": -1})
    stopping: dict[str, Any] = {}
    if valid is not None:
        held_out = data.create_valid(valid.x, valid.y, weight=valid.weight, init_score=np.full(len(valid.y), start))
        patience = lightgbm.early_stopping(plan.patience, verbose=False)
        stopping = {"valid_sets": [held_out], "feval": metric, "callbacks": [patience]}
    booster = lightgbm.train(params, data, plan.rounds, **stopping)
    return _LightGBM(booster, booster.best_iteration if valid is not None else booster.current_iteration(), start)
