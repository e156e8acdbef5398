"""GAR as an objective of XGBoost and LightGBM."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gar.boosting.inputs import Arrays, check_group_length, check_labels, checked, from_library, is_data_set
from gar.boosting.newton import UNIT, Derivatives, NewtonBatch, RowGroups
from gar.boosting.workers import refuse_lightgbm_workers
from gar.errors import InputError
from gar.functional.formulas import rounding_noise
from gar.functional.gar import COMPONENTS, Component, GARSettings
from gar.groups import group_codes
from gar.validation import check_parameter

WARM_UP = 0.8
"""Share of their variance that predictions reach before the correlation is included. Otherwise, with a large alpha, training drives
the correlation of a few small trees to one, while predictions stay far from the scale of the labels."""
LARGE = 65_536
"""From this many rows, derivatives are in single precision, computed from sums in double precision. In smaller data sets splits may
tie, and time does not matter."""
FAR_OFF = 0.5
"""Predictions count as far from the level of the labels while more than three quarters of the errors have the same sign."""
_NOT_FINITE = "predictions are no longer finite; lower the learning rate, or look for infinite features"


class GARObjective:
    """Gradient Aligned Regression as an objective: pass it where XGBoost and LightGBM take a function of your own.

    ``xgboost.train(..., obj=objective)``, ``XGBRegressor(objective=objective)``, ``lightgbm.train({"objective": objective}, ...)``
    and ``LGBMRegressor(objective=objective)`` all work. Start from :meth:`starting_score`, which libraries do not
    compute for custom objectives. With XGBoost's distributed training, such as ``xgboost.dask``, rows of all workers are compared.

    Gradient and curvature are multiplied by a common factor, one per target, that makes the curvature 1, as it is for squared
    error, where the error is average or less; it is smaller for larger errors. So ``lambda``, ``gamma`` and ``min_child_weight``
    mean what they usually mean.

    Scale labels whose standard deviation is far from 1 to about 1 before training, and undo it in predictions, as
    :class:`~gar.boosting.GARBoostRegressor` does below 1e-3: XGBoost, whatever its objective, makes no split that gains less than
    1e-6 in squares of the labels' unit, so trees of small labels stay constant; with LightGBM steps become far too large once
    errors are smaller than GAR's ``eps`` of 1e-7. Both store labels in single precision, so centre labels that are 10,000 standard
    deviations or more away from 0.

    Args:
        alpha: how evenly the components are weighted, from 0 (only the largest) to ``math.inf`` (all alike).
        components: any of ``"mae"``, ``"diff"`` and ``"diffnorm"``.
        weights: a positive factor for each component.
        groups: one value per training row (a day, a patient, a query). Differences are then compared within groups only: the
            difference loss is the variance of errors around the mean of their group, the correlation that of values minus that
            mean.
        warm_up: the correlation is invariant to scale, so a first small tree would count as a finished model. Until predictions
            have reached this share of their variance, only the other components are trained, and absolute errors alone as long as
            predictions are far from the level of the labels. 0 includes all components from the first round.

    Example:
        >>> import lightgbm, numpy as np
        >>> x = np.linspace(0, 1, 200)[:, None]
        >>> y = np.sin(9 * x[:, 0]) + 5
        >>> objective = GARObjective(alpha=1.0)
        >>> data = lightgbm.Dataset(x, y, init_score=np.full(200, objective.starting_score(y)))
        >>> model = lightgbm.train({"objective": objective, "verbose": -1}, data, 50)
        >>> bool(np.corrcoef(model.predict(x), y)[0, 1] > 0.99)
        True
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        components: Sequence[Component] = COMPONENTS,
        weights: Sequence[float] | None = None,
        groups: Any = None,
        warm_up: float = WARM_UP,
    ) -> None:
        check_parameter(alpha, "alpha", open_end=False)
        check_parameter(warm_up, "warm_up", open_end=False)
        self.alpha, self.warm_up = float(alpha), float(warm_up)
        self.settings = GARSettings(components=components, weights=weights)
        if not self.settings.has_closed_form:
            raise InputError(f"components={self.settings.components}; an objective of trees takes {COMPONENTS}")
        self._without_correlation = _only(self.settings, ("mae", "diff")) or GARSettings(components=("diff",))
        self._level = _only(self.settings, ("mae",))
        self._codes = group_codes(groups)

    def __repr__(self) -> str:
        groups = "" if self._codes is None else f", groups={self._codes.max() + 1} groups of {len(self._codes)} rows"
        return f"GARObjective(alpha={self.alpha:g}, components={self.settings.components}{groups})"

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and curvature of every row, for predictions and a data set, or for labels, predictions and weights.

        Those of a large data set are in single precision, to which both libraries would convert them.
        """
        if not is_data_set(second):
            refuse_lightgbm_workers(sys._getframe(1).f_locals.get("dataset"))  # LGBMRegressor has it, and passes its labels alone
        arrays = from_library(first, second, sample_weight)
        is_large = is_data_set(second) and len(arrays.pred) >= LARGE
        batch = self._batch(arrays, np.float32 if is_large else np.float64)
        found = batch.derivatives(self.alpha, self._components(batch), normalised=True)
        if not np.isfinite(found.value):
            raise InputError(_NOT_FINITE)
        shape = (len(arrays.pred),) if arrays.pred.shape[1] == 1 else arrays.pred.shape
        return found.gradient.reshape(shape), found.curvature.reshape(shape)

    def _components(self, batch: NewtonBatch) -> GARSettings:
        """Return the components of this round: curvatures of the later ones would slow down the earlier ones.

        Differences are invariant to the level of the labels, the correlation to level and scale.
        """
        if self.warm_up == 0:
            return self.settings
        if self._level is not None and batch.imbalance() > FAR_OFF:
            return self._level
        return self._without_correlation if batch.variance_share() < self.warm_up else self.settings

    def derivatives(self, y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> Derivatives:
        """Return GAR's value, its gradient by the predictions, equal to autograd of the PyTorch loss, and a curvature."""
        found = self._batch(checked(y_pred, y_true, sample_weight)).derivatives(self.alpha, self.settings)
        shape = np.shape(y_pred)
        return Derivatives(found.value, found.gradient.reshape(shape), found.curvature.reshape(shape))

    @staticmethod
    def starting_score(y: Any, sample_weight: Any = None) -> Any:
        """Return the best constant prediction, the median: a number, or one per target for labels ``(rows, targets)``.

        Pass it to XGBoost as ``base_score``; for LightGBM fill ``init_score`` with it and add it to predictions.
        """
        y = np.asarray(y, dtype=np.float64)
        check_labels(y)
        if sample_weight is None:
            median = np.median(y, axis=0)
        else:
            median = np.apply_along_axis(_weighted_median, 0, y, np.asarray(sample_weight, dtype=np.float64))
        return float(median) if y.ndim == 1 else median

    def _batch(self, arrays: Arrays, dtype: type[np.floating] = np.float64) -> NewtonBatch:
        check_group_length(self._codes, len(arrays.pred))
        batch = NewtonBatch(arrays.pred, arrays.target, RowGroups(len(arrays.pred), arrays.weight, self._codes), dtype)
        m = batch.moments
        if not np.isfinite(m.mean_target).all():
            check_labels(arrays.target)
            raise InputError(_NOT_FINITE)
        if not (m.target > m.size * rounding_noise(m.mean_target, UNIT) ** 2).all():
            where = "" if self._codes is None else " within every group"
            raise InputError(f"labels are constant{where} ({m.mean_target} on average): they have no differences to learn from")
        return batch


def _only(settings: GARSettings, names: tuple[Component, ...]) -> GARSettings | None:
    """Return these settings with some of their components only; None if they have none of them."""
    chosen = {name: weight for name, weight in zip(settings.components, settings.all_weights, strict=True) if name in names}
    return GARSettings(components=tuple(chosen), weights=tuple(chosen.values())) if chosen else None


def _weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    """Return the median of values that are repeated as often as their weights say."""
    order = values.argsort()
    cumulated = weight[order].cumsum()
    half = cumulated[-1] / 2
    low, high = np.searchsorted(cumulated, half, side="left"), np.searchsorted(cumulated, half, side="right")
    return float((values[order[low]] + values[order[min(high, len(values) - 1)]]) / 2)
