"""One network with one loss, the scikit-learn way."""

from collections.abc import Mapping
from typing import Any

from gar.estimators.base import NetworkRegressor, check_loss, drawn_seed, resolved_device
from gar.estimators.presets import DEFAULT, encoded, train_rows, train_settings
from gar.estimators.rows import stack_data
from gar.stack import Models, train


class GARRegressor(NetworkRegressor):
    """A neural network for tables, trained with Gradient Aligned Regression or another loss of the registry.

    Features and labels are standardised with statistics of the training rows; predictions are in the units of the labels.

    Args:
        loss: a name of :data:`gar.losses.registry`.
        alpha: GAR's alpha; other losses take their parameter from ``loss_options``.
        hidden_sizes: widths of the hidden layers; ``"auto"`` is three of 64 or, from 2000 training rows on, of 128; ``"paper"``
            the paper's by number of features.
        activation: between them: ``"silu"`` or ``"elu"``.
        encoding: of features: ``"periodic"`` adds cosines of each (:class:`gar.stack.PeriodicFeatures`) and gates that turn off what tells
            nothing; None is their standardised numbers alone.
        learning_rate: at the first epoch.
        weight_decay: of the optimiser.
        epochs: passes over the rows.
        batch_size: rows of a mini-batch.
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.
        schedule: of the learning rate: ``"cosine"``, ``"multistep"`` or ``"constant"``.
        loss_options: further arguments of the loss, such as ``{"delta": 0.5}`` for ``"huber"``.
        random_state: a number makes a fit repeatable.
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
        hidden_sizes: Any = DEFAULT["hidden_sizes"],
        activation: str = DEFAULT["activation"],
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
        """Train on all rows. ``sample_weight`` says how often each counts; NaN in ``y`` is a missing label."""
        check_loss(self.loss)
        rows = self._checked_rows(X, y, sample_weight)
        seed = drawn_seed(self.random_state)
        data = encoded(stack_data(rows, [rows.everything()]), self.encoding, seed=seed)
        models = Models(
            seed=seed,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            parameter=self.alpha if self.loss == "gar" else None,
        )
        settings = train_settings(
            hidden_sizes=self.hidden_sizes,
            features=data.x.shape[1],
            rows=train_rows(data),
            activation=self.activation,
            encoding=self.encoding,
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer=self.optimizer,
            schedule=self.schedule,
            loss=self.loss,
            loss_options=self.loss_options,
            keep_final=True,
        )
        networks = train(data, models, settings, device=resolved_device(self.device)).final
        self._keep(networks, data.folds)
        return self
