"""Two models that every loss should beat: a constant, and a linear model."""

import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error

from gar.app.compare.grids import predicted_test_rows, scores_of
from gar.app.compare.source import Prepared
from gar.app.report.results import Method
from gar.app.tables import Parts
from gar.registry import METRICS
from gar.stack import BoundedScaling, RobustScaling

REFERENCE = "reference"
"""The family of these models."""

_ROWS = 20_000
"""Training rows that are enough for a linear model."""

_STRENGTHS = (1.0, 100.0, 10_000.0)

Predictor = Callable[[Prepared, Parts], np.ndarray]
"""Trains on a fold, and predicts the test rows ``(rows, targets)``."""


def reference_methods(prepared: Prepared) -> list[Method]:
    """Return the test scores of the median and of ridge regression, on the folds of the comparison."""
    return [
        _method("median", "Constant (median)", _median, prepared),
        _method("ridge", "Linear (ridge)", _ridge, prepared),
    ]


def _method(name: str, title: str, predict: Predictor, prepared: Prepared) -> Method:
    start = time.monotonic()
    each = [predict(prepared, parts) for parts in prepared.parts]
    pairs = prepared.pairs_of(prepared.test)
    scores = [scores_of(prepared.source.labels[prepared.test], one, pairs) for one in each]
    tested = predicted_test_rows(np.mean(each, axis=0), prepared)
    return Method(
        loss=name,
        family=REFERENCE,
        title=title,
        parameter=None,
        models=len(each),
        failed=0,
        seconds=round(time.monotonic() - start, 3),
        scores={metric: [one[metric] for one in scores] for metric in METRICS},
        ensemble=tested["ensemble"],
        by_target=tested["by_target"],
        within=tested["within"],
    )


def _median(prepared: Prepared, parts: Parts) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a target without a label in these rows
        medians = np.nan_to_num(np.nanmedian(prepared.source.labels[parts[0]], axis=0))
    return np.tile(medians, (len(parts[2]), 1))


def _ridge(prepared: Prepared, parts: Parts) -> np.ndarray:
    """Predict by ridge regression on features and labels that are scaled as for networks; validation rows choose its strength."""
    train, valid, test = (part[:_ROWS] if index < 2 else part for index, part in enumerate(parts))
    labels = prepared.source.labels
    encoder, features = prepared.encoder.fit_encode(prepared.codes[train], labels[train])
    by_x = RobustScaling.of_features(torch.from_numpy(features))
    by_y = BoundedScaling.of_labels(torch.from_numpy(labels[train]))
    x, checked, tested = (
        by_x.apply(torch.from_numpy(rows)).numpy()
        for rows in (features, encoder.encode(prepared.codes[valid]), encoder.encode(prepared.codes[test]))
    )
    y, expected = (by_y.apply(torch.from_numpy(labels[rows])).numpy() for rows in (train, valid))
    columns = [_ridge_of_target(x, y[:, k], checked, expected[:, k], tested) for k in range(y.shape[1])]
    return by_y.undo(torch.from_numpy(np.column_stack(columns))).numpy()


def _ridge_of_target(x: np.ndarray, y: np.ndarray, checked: np.ndarray, expected: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """Return predictions of the tested rows by the strength with the smallest validation error."""
    known, scored = ~np.isnan(y), ~np.isnan(expected)
    if not known.any():
        return np.zeros(len(tested))
    models = [Ridge(strength).fit(x[known], y[known]) for strength in _STRENGTHS]
    if scored.any():
        models.sort(key=lambda model: mean_absolute_error(expected[scored], model.predict(checked[scored])))
    predicted: np.ndarray = models[0].predict(tested)
    return predicted
