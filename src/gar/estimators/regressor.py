"""A few networks with one loss and one setting, as an estimator of scikit-learn."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from gar.errors import InputError
from gar.estimators.base import Member, NetworkRegressor, Split, stack_data
from gar.estimators.budget import TimeLimit
from gar.estimators.presets import (
    DEFAULT_ALPHA,
    ESTIMATOR_PRESET,
    batch_size_for,
    encode_features,
    epochs_for,
    train_rows,
    train_settings,
)
from gar.groups import order_by_groups
from gar.stack import History, Models, StackData, TrainSettings, train
from gar.validation import whole_number

_SETTINGS = ("hidden_sizes", "activation", "encoding", "epochs", "batch_size", "optimizer", "schedule", "loss", "loss_options")
"""Arguments of the estimator that are settings of its training."""


class GARRegressor(NetworkRegressor):
    """A neural network for tables, trained with Gradient Aligned Regression or another registered loss.

    Features and labels are standardised with statistics of the training rows; predictions are in the units of the labels. By
    default they are the mean of five networks. Each puts another fifth of the rows aside, and keeps the weights of the epoch with
    the lowest absolute error on them.

    Args:
        loss: a name of :data:`gar.registry.LOSSES`.
        alpha: GAR's alpha; other losses take their parameter from ``loss_options``.
        hidden_sizes: widths of the hidden layers; ``"auto"`` is three of 64 or, from 2000 training rows on, of 128; ``"paper"``
            the paper's by number of features.
        activation: between the layers: ``"silu"`` or ``"elu"``.
        encoding: of features: ``"periodic"`` adds cosines of each (:class:`gar.stack.PeriodicFeatures`), ``"piecewise"`` ramps of
            each (:class:`gar.stack.PiecewiseFeatures`), both with learned feature gates, which switch off uninformative inputs;
            None is standardised features alone.
        learning_rate: at the first epoch.
        weight_decay: of the optimiser.
        epochs: passes over the rows; ``"auto"`` is 60 up to 4000 training rows, and fewer for more.
        batch_size: rows of a mini-batch; ``"auto"`` is 32 up to 4000 training rows, and up to 512 for more.
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.
        schedule: of the learning rate: ``"cosine"``, ``"multistep"`` or ``"constant"``.
        early_stopping: choose the epoch by validation rows; False trains on all rows for all epochs.
        validation_fraction: the part of the rows that a network puts aside for that.
        bound_predictions: keep predictions within the range of the labels and a quarter of its width on both sides: a row with an
            outlying feature could get any prediction otherwise. False lets a trend go on.
        n_networks: networks that are trained as one stack, and predict by their mean.
        time_limit: seconds that training may take. It ends early with a warning, and networks keep what they have.
        categorical_features: columns of frames that hold categories: ``"from_dtype"`` are those of a category type; or a list of
            names or of indices, or a mask, as in scikit-learn's HistGradientBoostingRegressor, for arrays too; None are none.
            Text that is neither numbers nor dates is categories in any case.
        loss_options: further arguments of the loss, such as ``{"delta": 0.5}`` for ``"huber"``.
        random_state: an integer makes a fit repeatable.
        device: ``"auto"`` uses a GPU if there is one.

    Attributes:
        networks_: the trained networks.
        n_features_in_: as everywhere in scikit-learn, and so are ``feature_names_in_`` and ``n_outputs_``.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> GARRegressor(epochs=20, random_state=0).fit(X, y).score(X, y) > 0.4
        True
    """

    def __init__(
        self,
        loss: str = "gar",
        alpha: float = DEFAULT_ALPHA,
        *,
        hidden_sizes: Any = ESTIMATOR_PRESET["hidden_sizes"],
        activation: str = ESTIMATOR_PRESET["activation"],
        encoding: str | None = None,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-2,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        optimizer: str = "adamw",
        schedule: str = "cosine",
        early_stopping: bool = True,
        validation_fraction: float = 0.2,
        n_networks: int = 5,
        time_limit: float | None = None,
        bound_predictions: bool = True,
        categorical_features: Any = "from_dtype",
        loss_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.hidden_sizes = hidden_sizes
        self.activation = activation
        self.encoding = encoding
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.schedule = schedule
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_networks = n_networks
        self.time_limit = time_limit
        self.bound_predictions = bound_predictions
        self.categorical_features = categorical_features
        self.loss_options = loss_options
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None, pair_groups: Any = None) -> "GARRegressor":  # noqa: N803
        """Train the networks. A weight of two equals two copies of a row; NaN in ``y`` is a missing label.

        With ``pair_groups``, one value per row such as a day or a patient, the loss compares rows of the same group only, batches
        have several rows of a group, and the epoch is chosen by the mean of Pearson's correlations within groups, if validation
        rows have any.
        """
        limit = TimeLimit(self.time_limit)
        rows, seed, device = self._validated(X, y, sample_weight, pair_groups)
        rows = rows.merged()
        splits = self._splits(len(rows.weight), seed, rows.pair_groups)
        data, encoders = stack_data(self.encoder_, rows, splits, bound_predictions=self.bound_predictions)
        data = encode_features(data, self.encoding, seed=seed)
        numbers = list(range(self.n_networks))
        parameter = self.alpha if self.loss == "gar" else None
        rates = {"learning_rate": self.learning_rate, "weight_decay": self.weight_decay}
        folds, seeds = [number % len(data.folds) for number in numbers], [seed + number for number in numbers]
        models = Models(fold=folds, seed=seeds, parameter=parameter, **rates)
        history = train(data, models, self._train_settings(data), device=device, go_on=limit.go_on)
        if history.is_cut:
            self._warn_of_cut(history)
        networks = history.best if self.early_stopping else history.final
        self._set_members(
            [
                Member(networks.take([number]), encoders[fold], data.folds[fold].features, data.folds[fold].labels)
                for number, fold in zip(numbers, folds, strict=True)
                if history.epochs_run[number] or not history.is_cut
            ]
        )
        return self

    def _train_settings(self, data: StackData) -> TrainSettings:
        rows = train_rows(data)
        given = {name: getattr(self, name) for name in _SETTINGS}
        given["epochs"] = epochs_for(rows) if self.epochs == "auto" else whole_number(self.epochs, "epochs")
        given["batch_size"] = batch_size_for(rows) if self.batch_size == "auto" else self.batch_size
        in_groups = data.pair_groups is not None and all(len(data.with_partner(fold.valid)) for fold in data.folds)
        best = "pearson" if in_groups else "mae"
        given |= {"keep_best": best} if self.early_stopping else {"keep_final": True}
        return train_settings(features=data.x.shape[1], rows=rows, **given)

    def _warn_of_cut(self, history: History) -> None:
        if not history.epochs_run.any():
            raise InputError(f"time_limit={self.time_limit} s was over before the first epoch; allow more seconds")
        trained, epochs = int((history.epochs_run > 0).sum()), history.metrics.shape[1]
        warnings.warn(
            f"time_limit={self.time_limit} s: {trained} of {len(history)} networks were trained, for {history.epochs_run.max()} of "
            f"{epochs} epochs. A longer limit, or none, predicts better",
            stacklevel=3,
        )

    def _splits(self, rows: int, seed: int, pair_groups: np.ndarray | None = None) -> list[Split]:
        """Return the training and validation rows of every network; none without early stopping.

        Rows are put aside in blocks of a shuffled order, one after another: with five networks and a fifth of the rows, each row is
        put aside once. Rows that are compared in groups are put aside together.
        """
        generator = np.random.default_rng(seed)
        whole_number(self.n_networks, "n_networks")
        if not self.early_stopping:
            return []
        if not 0 < self.validation_fraction < 1:
            raise InputError(f"validation_fraction={self.validation_fraction!r}; expected a number between 0 and 1, such as 0.2")
        if pair_groups is None or not pair_groups.any():
            order = generator.permutation(rows)
        else:
            order = order_by_groups(pair_groups, generator)
        aside = min(max(1, round(self.validation_fraction * rows)), rows - 1)
        turned = [np.roll(order, -number * aside) for number in range(self.n_networks)]
        return [(np.sort(one[aside:]), np.sort(one[:aside])) for one in turned]
