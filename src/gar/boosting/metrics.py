"""Metrics for early stopping: correlation of all rows or within groups, and GAR itself."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from gar.boosting.inputs import check_group_length, check_labels, from_library, is_data_set
from gar.boosting.library import tree_library
from gar.boosting.newton import NewtonBatch, RowGroups
from gar.boosting.workers import is_distributed
from gar.errors import InputError
from gar.functional.gar import COMPONENTS, Component, GARSettings
from gar.groups import group_codes
from gar.validation import check_choice, check_parameter


class EarlyStoppingMetric:
    """Pearson, Spearman or GAR of an evaluation set, in the form that a library's early stopping expects.

    XGBoost: ``train(..., custom_metric=metric)`` or ``XGBRegressor(eval_metric=metric)``. It minimises metrics, so correlations are
    reported as ``1 - rho``. LightGBM: ``train(..., feval=metric)`` or ``fit(..., eval_metric=metric)``.

    Args:
        name: ``"pearson"``, ``"spearman"`` or ``"gar"``.
        library: ``"xgboost"`` or ``"lightgbm"``.
        groups: one value per row of the evaluation set: correlations are then computed within groups, and averaged over the groups
            whose labels differ.
        alpha: parameter of ``"gar"``, as are ``components`` and ``weights``.

    Example:
        >>> metric = EarlyStoppingMetric("spearman", library="lightgbm")
        >>> metric(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.2, 0.4, 0.3]))
        ('spearman', 0.8, True)
    """

    def __init__(
        self,
        name: Literal["pearson", "spearman", "gar"],
        *,
        library: str,
        groups: Any = None,
        alpha: float = 1.0,
        components: Sequence[Component] = COMPONENTS,
        weights: Sequence[float] | None = None,
    ) -> None:
        check_choice(name, ("pearson", "spearman", "gar"), "metric")
        check_parameter(alpha, "alpha", open_end=False)
        self.name, self.library, self.alpha = name, library, float(alpha)
        self.settings = GARSettings(components=components, weights=weights)
        self._codes = group_codes(groups)
        self.larger_is_better = name != "gar"
        self._library = tree_library(library)
        self.__name__ = self._result(0.0, from_sklearn=False)[0]  # the name that XGBRegressor shows

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> Any:
        """Take predictions and a data set, or labels, predictions and weights; return what the library expects in each case."""
        value = self.value(*from_library(first, second, sample_weight))
        return self._result(value, from_sklearn=not is_data_set(second))

    def _result(self, value: float, *, from_sklearn: bool) -> Any:
        return self._library.metric_result(self.name, value, larger_is_better=self.larger_is_better, from_sklearn=from_sklearn)

    def value(self, pred: np.ndarray, target: np.ndarray, weight: np.ndarray | None = None) -> float:
        """Return the metric of predictions and labels ``(rows, targets)``, the mean over targets."""
        check_labels(target)
        check_group_length(self._codes, len(pred))
        if self.name == "gar":
            return NewtonBatch(pred, target, RowGroups(len(pred), weight, self._codes)).value(self.alpha, self.settings)
        if is_distributed():
            return self._pearson_of_workers(pred, target, weight)
        codes = np.zeros(len(pred), dtype=np.intp) if self._codes is None else self._codes
        pairs, ranked = zip(pred.T, target.T, strict=True), self.name == "spearman"
        return float(np.mean([correlation_within(one, other, codes, weight, ranked=ranked) for one, other in pairs]))

    def _pearson_of_workers(self, pred: np.ndarray, target: np.ndarray, weight: np.ndarray | None) -> float:
        if self.name == "spearman":
            raise InputError("ranks of rows on several workers are known to none of them; use 'pearson' or 'gar' to stop early")
        m = NewtonBatch(pred, target, RowGroups(len(pred), weight, None)).moments
        scale = np.sqrt(m.pred * m.target)
        return float(np.mean((m.pred - m.cross) / np.where(scale > 0, scale, np.inf)))


def correlation_within(
    pred: np.ndarray, target: np.ndarray, codes: np.ndarray, weight: np.ndarray | None = None, *, ranked: bool = False
) -> float:
    """Return Pearson's correlation within groups, or Spearman's if ``ranked``: the mean over the groups whose labels differ.

    Constant predictions have the correlation 0, and so do labels that are constant within every group.
    """
    counts = np.ones(len(pred)) if weight is None else weight
    sizes = np.bincount(codes, counts)

    def centred(values: np.ndarray) -> np.ndarray:
        values = _ranks_within(values, codes, counts) if ranked else values.astype(np.float64)
        deviations = values - (np.bincount(codes, counts * values) / (sizes + (sizes == 0)))[codes]
        return np.where(np.abs(deviations) > 1e-14 * np.abs(values), deviations, 0.0)  # rounding errors are no variance

    f, y = centred(pred), centred(target)
    cross, one, other = (np.bincount(codes, counts * product) for product in (f * y, f * f, y * y))
    differ = other > 0
    scale = np.sqrt(one[differ] * other[differ])
    return float((cross[differ] / np.where(scale > 0, scale, np.inf)).mean()) if differ.any() else 0.0


def _ranks_within(values: np.ndarray, codes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return ranks within each group, up to a constant per group; equal values share the mean of their ranks."""
    order = np.lexsort((values, codes))
    ranked, groups, upto = values[order], codes[order], counts[order].cumsum()
    starts = np.flatnonzero(np.concatenate([[True], (ranked[1:] != ranked[:-1]) | (groups[1:] != groups[:-1])]))
    ends = np.concatenate([starts[1:], [len(values)]])
    below = (upto - counts[order])[starts]
    ranks = np.empty(len(values))
    ranks[order] = np.repeat((below + upto[ends - 1]) / 2, ends - starts)
    return ranks
