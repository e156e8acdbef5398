"""What both estimators share: checks before training, and predictions in the user's units."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gar.errors import InputError
from gar.estimators.presets import FoldScaling, check_labels, fold_predictions
from gar.estimators.rows import Rows
from gar.losses import registry
from gar.stack import Fold, StackedMLP
from gar.validation import check_choice


class NetworkRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts with the mean of one network or several, each with its own scaling of features and labels."""

    networks_: StackedMLP
    scalings_: list[FoldScaling]
    n_outputs_: int

    def _checked_rows(self, x: Any, y: Any, sample_weight: Any) -> Rows:
        """The table as numbers, or an error that says what is wrong with it, before anything is trained."""
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        x = validate_data(self, x, dtype=np.float64, ensure_min_samples=2)
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan", input_name="y", estimator=self)
        check_consistent_length(x, y)
        labels = y.reshape(len(y), -1)
        check_labels(labels, range(labels.shape[1]))
        weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        self._flat, self.n_outputs_ = y.ndim == 1, labels.shape[1]
        return Rows(x, labels, weight)

    def _keep(self, networks: StackedMLP, folds: Sequence[Fold]) -> None:
        """Take these networks, one per fold, to predict with."""
        if not bool(networks.weights.isfinite().all()):
            raise InputError("training diverged: the weights are no longer finite; use a smaller learning rate")
        self.networks_ = networks
        self.scalings_ = [(fold.features, fold.labels) for fold in folds]

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predictions in the units of the labels, ``(rows,)`` or ``(rows, targets)`` as in ``fit``."""
        check_is_fitted(self, "networks_")
        x = torch.tensor(validate_data(self, X, dtype=np.float64, reset=False))
        folds = enumerate(self.scalings_)
        mean: np.ndarray = torch.stack([fold_predictions(self.networks_, place, fold, x) for place, fold in folds]).mean(0).numpy()
        return mean[:, 0] if self._flat else mean

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def check_loss(loss: Any) -> None:
    check_choice(loss, tuple(registry), "loss")


def resolved_device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device={device!r} is not known to torch; use 'auto', 'cpu' or 'cuda'") from error


def drawn_seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))
