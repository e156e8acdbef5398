"""Boosted trees trained with GAR, for scikit-learn users."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from gar.boosting.inputs import check_group_length, group_codes
from gar.boosting.libraries import Plan, Table, Trained, train
from gar.boosting.metrics import LIBRARIES, EarlyStoppingMetric, Library
from gar.boosting.objective import GARObjective
from gar.errors import InputError, whole_number
from gar.functional.gar import COMPONENTS, Component
from gar.validation import check_choice


class GARBoostRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Boosted trees whose objective is Gradient Aligned Regression, by XGBoost or LightGBM.

    Missing features (NaN) are left to the trees. Several targets are trained together by XGBoost; LightGBM has one.

    Labels whose standard deviation is below 1e-3 or above 1e12 are trained in a unit in which it is about 1, which is undone in
    predictions: the libraries cannot work with such numbers. alpha then means what it means for standardised labels. A level of
    more than 10,000 deviations is taken off and added again, which changes no component of GAR.

    Args:
        alpha: how evenly GAR's components are attended to, from 0 (only the largest) to ``math.inf`` (all alike).
        library: ``"xgboost"`` or ``"lightgbm"``.
        components: any of ``"mae"``, ``"diff"`` and ``"diffnorm"``.
        weights: a positive factor for each component.
        n_estimators: rounds of boosting, the most there are with early stopping.
        learning_rate: share of each Newton step that is taken.
        max_depth: of a tree.
        min_child_weight: rows that a leaf needs, counted by their weights; rows with large errors count less.
        early_stopping_rounds: stop when this many rounds, 1 or more, have not improved the metric on rows held out; None never
            does.
        validation_fraction: share of the rows, or of the groups, held out for that: 2 rows at least.
        scoring: ``"pearson"``, ``"spearman"`` or ``"gar"``: the metric of early stopping.
        options: parameters of the library's own, such as ``{"subsample": 0.8}``.
        n_jobs: threads; None is 1, -1 all.
        random_state: seed of what is held out and of random options.

    Attributes:
        model_: the trees; ``model_.booster`` is the library's own object, ``model_.unit`` the level and scale of its labels, which
            are 0 and 1 for ordinary ones.
        n_estimators_: rounds that predictions use.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = GARBoostRegressor(library="lightgbm", n_estimators=50, max_depth=3).fit(X, y)
        >>> model.score(X, y) > 0.5
        True
    """

    model_: Trained

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        library: Library = "xgboost",
        components: Sequence[Component] = COMPONENTS,
        weights: Sequence[float] | None = None,
        n_estimators: int = 300,
        learning_rate: float = 0.1,
        max_depth: int = 6,
        min_child_weight: float = 5.0,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        scoring: Literal["pearson", "spearman", "gar"] = "pearson",
        options: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.library = library
        self.components = components
        self.weights = weights
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.scoring = scoring
        self.options = options
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> "GARBoostRegressor":  # noqa: N803
        """Grow the trees. ``sample_weight`` says how often each row counts, ``groups`` which rows are compared with each other."""
        check_choice(self.library, LIBRARIES, "library")
        table = self._checked_table(X, y, sample_weight)
        codes = None if groups is None else group_codes(groups)
        if codes is not None:
            check_group_length(codes, len(table.x))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        # A row that counts nothing must not even move the borders of a split.
        present = np.arange(len(table.x)) if table.weight is None else np.flatnonzero(table.weight)
        kept, held_out = self._held_out(present, codes, seed)
        loss: dict[str, Any] = {"alpha": self.alpha, "components": self.components, "weights": self.weights}
        objective = GARObjective(**loss, groups=_at(codes, kept))
        metric = EarlyStoppingMetric(self.scoring, library=self.library, groups=_at(codes, held_out), **loss)
        valid = None if held_out is None else _rows(table, held_out)
        self.model_ = train(self.library, _rows(table, kept), valid, objective, metric, self._plan(seed))
        self.n_estimators_ = self.model_.rounds
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predictions in the units of the labels, ``(rows,)`` or ``(rows, targets)`` as in ``fit``."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return self.model_.predict(x).reshape(len(x), *self._label_shape)

    def _checked_table(self, x: Any, y: Any, sample_weight: Any) -> Table:
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        x = validate_data(self, x, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=self)
        if self.library == "lightgbm" and y.ndim == 2 and y.shape[1] > 1:
            raise InputError(
                f"y has shape {y.shape}, but LightGBM trains one target; use library='xgboost', or sklearn's MultiOutputRegressor"
            )
        y = column_or_1d(y, warn=True) if self.library == "lightgbm" else y
        check_consistent_length(x, y)
        weight = sample_weight
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        self._label_shape = y.shape[1:]
        return Table(x, y, weight)

    def _held_out(self, rows: np.ndarray, codes: np.ndarray | None, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows to train on and rows to stop early by; whole groups where there are groups."""
        if self.early_stopping_rounds is None:
            return rows, None
        whole_number(self.early_stopping_rounds, "early_stopping_rounds", least=1)
        splitter = (ShuffleSplit if codes is None else GroupShuffleSplit)(1, test_size=self.validation_fraction, random_state=seed)
        kept, held_out = next(splitter.split(rows, groups=_at(codes, rows)))
        if min(len(kept), len(held_out)) < 2:
            raise InputError(
                f"validation_fraction={self.validation_fraction} leaves {len(held_out)} of {len(rows)} rows out for early stopping "
                f"and {len(kept)} to train on; GAR compares rows, so 2 or more are needed in each: use "
                f"{'a larger' if len(held_out) < 2 else 'a smaller'} validation_fraction, more rows, or early_stopping_rounds=None"
            )
        return rows[kept], rows[held_out]

    def _plan(self, seed: int) -> Plan:
        return Plan(
            rounds=self.n_estimators,
            learning_rate=self.learning_rate,
            max_depth=self.max_depth,
            min_child_weight=self.min_child_weight * (1 - 1e-5),  # a whole row must count as one, whatever its rounding
            seed=seed,
            threads=1 if self.n_jobs is None else max(self.n_jobs, 0),  # 0 is 'all' in both libraries
            patience=self.early_stopping_rounds,
            options=dict(self.options or {}),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.library == "xgboost"
        tags.input_tags.allow_nan = True
        return tags


def _at(values: np.ndarray | None, rows: np.ndarray | None) -> np.ndarray | None:
    return None if values is None or rows is None else values[rows]


def _rows(table: Table, rows: np.ndarray) -> Table:
    return Table(table.x[rows], table.y[rows], _at(table.weight, rows))
