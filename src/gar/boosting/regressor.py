"""Boosted trees trained with GAR, for scikit-learn users."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from gar.boosting.inputs import check_group_length
from gar.boosting.library import LabelledRows, StoppingSettings, TrainingTask, tree_library
from gar.boosting.metrics import EarlyStoppingMetric
from gar.boosting.objective import GARObjective
from gar.boosting.training import TrainedTrees, train
from gar.encoding import Encoder
from gar.encoding.cells import checked_table
from gar.encoding.encoder import inferred_codes
from gar.errors import InputError
from gar.functional.gar import COMPONENTS, Component
from gar.groups import group_codes, parts_of_groups
from gar.pickles import VersionedPickle
from gar.registry import FAMILIES
from gar.validation import whole_number


class GARBoostRegressor(VersionedPickle, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Boosted trees whose objective is Gradient Aligned Regression, by XGBoost or LightGBM.

    Missing features (NaN) are handled by the trees. XGBoost trains several targets together, LightGBM one.

    Labels whose standard deviation is below 1e-3 or above 1e12 are scaled to one of about 1, which is undone in predictions: the
    libraries cannot work with such numbers. alpha then means what it means for standardised labels. Labels more than 10,000
    standard deviations away from 0 are centred, which is undone too and changes no component of GAR.

    Args:
        alpha: how evenly GAR's components are weighted, from 0 (only the largest) to ``math.inf`` (all alike).
        library: ``"xgboost"`` or ``"lightgbm"``.
        components: any of ``"mae"``, ``"diff"`` and ``"diffnorm"``.
        weights: a positive factor for each component.
        n_estimators: rounds of boosting, at most with early stopping.
        learning_rate: share of each Newton step that is taken.
        max_depth: the depth of a tree.
        min_child_weight: rows that a leaf needs, counted by their weights; rows with large errors count less.
        early_stopping_rounds: stop when this many rounds, 1 or more, have not improved the metric on the validation rows; None
            trains all rounds.
        validation_fraction: share of the rows, or of the groups, held out for early stopping: 2 rows at least.
        scoring: ``"pearson"``, ``"spearman"`` or ``"gar"``: the metric of early stopping.
        categorical_features: columns of frames that hold categories: ``"from_dtype"`` are those of a category type; or a list of
            names or of indices, or a mask, as in scikit-learn's HistGradientBoostingRegressor, for arrays too; None are none.
            Text that is neither numbers nor dates is categories in any case.
        options: the library's own parameters, such as ``{"subsample": 0.8}``.
        n_jobs: threads; None is 1, -1 all.
        random_state: seed of the validation rows and of random options.

    Attributes:
        model_: the trees; ``model_.booster`` is the library's own model, ``model_.label_scale`` the center and scale of its labels,
            which are 0 and 1 for ordinary ones.
        n_estimators_: rounds that predictions use.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = GARBoostRegressor(library="lightgbm", n_estimators=50, max_depth=3).fit(X, y)
        >>> model.score(X, y) > 0.5
        True
    """

    model_: TrainedTrees
    encoder_: Encoder

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        library: str = "xgboost",
        components: Sequence[Component] = COMPONENTS,
        weights: Sequence[float] | None = None,
        n_estimators: int = 300,
        learning_rate: float = 0.1,
        max_depth: int = 6,
        min_child_weight: float = 5.0,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        scoring: Literal["pearson", "spearman", "gar"] = "pearson",
        categorical_features: Any = "from_dtype",
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
        self.categorical_features = categorical_features
        self.options = options
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        pair_groups: Any = None,
    ) -> "GARBoostRegressor":
        """Train the trees; ``sample_weight`` is how often each row counts.

        Rows of the same of ``groups`` are held out for early stopping together. With ``pair_groups``, one value per row such as a
        day or a patient, only rows of the same group are compared; without ``groups``, up to eight of them are held out together.
        """
        library = tree_library(self.library)
        rows = self._checked_rows(X, y, sample_weight, multi_output=library.multi_output)
        codes, pairs = group_codes(groups), group_codes(pair_groups, name="pair_groups")
        check_group_length(codes, len(rows.x))
        check_group_length(pairs, len(rows.x), name="pair_groups")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        # Rows of weight 0 are left out: they would still move the thresholds of splits.
        present = np.arange(len(rows.x)) if rows.weight is None else np.flatnonzero(rows.weight)
        if codes is None and pairs is not None:
            codes = parts_of_groups(pairs, np.random.default_rng(seed))
        train_rows, valid_rows = self._train_valid_split(present, codes, seed)
        loss: dict[str, Any] = {"alpha": self.alpha, "components": self.components, "weights": self.weights}
        objective = GARObjective(**loss, groups=_at(pairs, train_rows))
        metric = EarlyStoppingMetric(self.scoring, library=self.library, groups=_at(pairs, valid_rows), **loss)
        trained, valid = self._encoded(rows, train_rows, valid_rows)
        self.model_ = train(library, TrainingTask(trained, valid, objective, metric), self._settings(seed))
        self.n_estimators_ = self.model_.rounds
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return predictions in the units of the labels, ``(rows,)`` or ``(rows, targets)`` as in ``fit``."""
        check_is_fitted(self)
        x = self.encoder_.transform(checked_table(self, X, reset=False))
        return self.model_.predict(x).reshape(len(x), *self._label_shape)

    def _encoded(self, rows: LabelledRows, train: np.ndarray, valid: np.ndarray | None) -> tuple[LabelledRows, LabelledRows | None]:
        """Fit the encoder to the training rows, and return these and the validation rows with features instead of codes."""
        trained = rows.take(train)
        self.encoder_, features = self.encoder_.fit_encode(trained.x, trained.y.reshape(len(train), -1), trained.weight)
        if valid is None:
            return trained._replace(x=features), None
        held_out = rows.take(valid)
        return trained._replace(x=features), held_out._replace(x=self.encoder_.encode(held_out.x))

    def _checked_rows(self, x: Any, y: Any, sample_weight: Any, *, multi_output: bool) -> LabelledRows:
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        columns = checked_table(self, x, reset=True)
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=self)
        if not multi_output and y.ndim == 2 and y.shape[1] > 1:
            raise InputError(
                f"y has shape {y.shape}, but {FAMILIES[self.library].title} trains one target; use library='xgboost', "
                "or sklearn's MultiOutputRegressor"
            )
        y = y if multi_output else column_or_1d(y, warn=True)
        check_consistent_length(x, y)
        weight = sample_weight
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        self._label_shape = y.shape[1:]
        self.encoder_, codes = inferred_codes(self, columns, weight, fill=False)
        return LabelledRows(codes, y, weight)

    def _train_valid_split(self, rows: np.ndarray, codes: np.ndarray | None, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the training rows and the validation rows of early stopping; groups are kept whole."""
        if self.early_stopping_rounds is None:
            return rows, None
        whole_number(self.early_stopping_rounds, "early_stopping_rounds", least=1)
        splitter = (ShuffleSplit if codes is None else GroupShuffleSplit)(1, test_size=self.validation_fraction, random_state=seed)
        train, valid = next(splitter.split(rows, groups=_at(codes, rows)))
        if min(len(train), len(valid)) < 2:
            raise InputError(
                f"validation_fraction={self.validation_fraction} leaves {len(valid)} of {len(rows)} rows out for early stopping "
                f"and {len(train)} to train on; GAR compares rows, so 2 or more are needed in each: use "
                f"{'a larger' if len(valid) < 2 else 'a smaller'} validation_fraction, more rows, or early_stopping_rounds=None"
            )
        return rows[train], rows[valid]

    def _settings(self, seed: int) -> StoppingSettings:
        return StoppingSettings(
            rounds=self.n_estimators,
            learning_rate=self.learning_rate,
            max_depth=self.max_depth,
            min_child_weight=self.min_child_weight * (1 - 1e-5),  # rounding errors must not make a row count as less than one
            seed=seed,
            threads=1 if self.n_jobs is None else max(self.n_jobs, 0),  # 0 is 'all' to the libraries
            patience=self.early_stopping_rounds,
            options=dict(self.options or {}),
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tree_library(self.library).multi_output
        tags.input_tags.allow_nan = True
        return tags


def _at(values: np.ndarray | None, rows: np.ndarray | None) -> np.ndarray | None:
    return None if values is None or rows is None else values[rows]
