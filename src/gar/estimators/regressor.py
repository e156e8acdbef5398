"""One network with one loss, as an estimator of scikit-learn."""

from collections.abc import Mapping
from typing import Any

from gar.estimators.base import NetworkRegressor, stack_data
from gar.estimators.presets import ESTIMATOR_PRESET, encode_features, train_rows, train_settings
from gar.stack import Models, train

_SETTINGS = ("hidden_sizes", "activation", "encoding", "epochs", "batch_size", "optimizer", "schedule", "loss", "loss_options")
"""Arguments of the estimator that are settings of its training."""


class GARRegressor(NetworkRegressor):
    """A neural network for tables, trained with Gradient Aligned Regression or another registered loss.

    Features and labels are standardised with statistics of the training rows; predictions are in the units of the labels.

    Args:
        loss: a name of :data:`gar.registry.LOSSES`.
        alpha: GAR's alpha; other losses take their parameter from ``loss_options``.
        hidden_sizes: widths of the hidden layers; ``"auto"`` is three of 64 or, from 2000 training rows on, of 128; ``"paper"``
            the paper's by number of features.
        activation: between the layers: ``"silu"`` or ``"elu"``.
        encoding: of features: ``"periodic"`` adds cosines of each (:class:`gar.stack.PeriodicFeatures`) and learned feature gates,
            which switch off uninformative inputs; None is standardised features alone.
        learning_rate: at the first epoch.
        weight_decay: of the optimiser.
        epochs: passes over the rows.
        batch_size: rows of a mini-batch.
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.
        schedule: of the learning rate: ``"cosine"``, ``"multistep"`` or ``"constant"``.
        loss_options: further arguments of the loss, such as ``{"delta": 0.5}`` for ``"huber"``.
        random_state: an integer makes a fit repeatable.
        device: ``"auto"`` uses a GPU if there is one.

    Attributes:
        networks_: the trained network, as a stack of one.
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
        alpha: float = 1.0,
        *,
        hidden_sizes: Any = ESTIMATOR_PRESET["hidden_sizes"],
        activation: str = ESTIMATOR_PRESET["activation"],
        encoding: str | None = None,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-2,
        epochs: int = 100,
        batch_size: int = 32,
        optimizer: str = "adamw",
        schedule: str = "cosine",
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
        self.loss_options = loss_options
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GARRegressor":  # noqa: N803
        """Train on all rows. A weight of two equals two copies of a row; NaN in ``y`` is a missing label."""
        rows, seed, device = self._validated(X, y, sample_weight)
        data = encode_features(stack_data(rows), self.encoding, seed=seed)
        parameter = self.alpha if self.loss == "gar" else None
        models = Models(seed=seed, learning_rate=self.learning_rate, weight_decay=self.weight_decay, parameter=parameter)
        given = {name: getattr(self, name) for name in _SETTINGS}
        settings = train_settings(features=data.x.shape[1], rows=train_rows(data), keep_final=True, **given)
        self._set_networks(train(data, models, settings, device=device).final, data.folds)
        return self
