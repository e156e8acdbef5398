"""A loss that is registered from outside works by name in both estimators, with its own grid."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_regression
from torch import Tensor, nn

from gar import GARRegressor, GARRegressorCV, InputError, registry
from gar.functional import huber_loss
from gar.registry import LossSpec, register


class ScaledHuberLoss(nn.Module):
    """Huber's loss under another name of its parameter."""

    def __init__(self, threshold: float | Tensor = 1.0, *, nan_policy: Any = "raise") -> None:
        super().__init__()
        self.threshold, self.nan_policy = threshold, nan_policy

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        return huber_loss(pred, target, delta=self.threshold, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy)


SPEC = LossSpec(title="Scaled Huber", module=ScaledHuberLoss, parameter="threshold", grid=(0.5, 2.0))
X, Y = make_regression(90, 4, noise=1.0, random_state=0)
QUICK: dict[str, Any] = {"learning_rates": (1e-2,), "weight_decays": (1e-3,), "epochs": 15, "cv": 3, "random_state": 0}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Register the loss for the time of a test."""
    register("scaled_huber", SPEC)
    yield
    registry._LOSSES.pop("scaled_huber")


def test_its_registered_grid_is_searched() -> None:
    model = GARRegressorCV("scaled_huber", **QUICK).fit(X, Y)
    assert {params["threshold"] for params in model.cv_results_["params"]} == {0.5, 2.0}
    assert model.best_params_["threshold"] in SPEC.grid
    assert not hasattr(model, "alpha_")
    own, built_in = (
        GARRegressorCV(loss, parameters=(0.5, 2.0), **QUICK).fit(X, Y).predict(X) for loss in ("scaled_huber", "huber")
    )
    np.testing.assert_array_equal(own, model.predict(X))
    np.testing.assert_array_equal(own, built_in)


def test_its_parameter_is_a_loss_option_of_the_single_network() -> None:
    own, default = (
        GARRegressor("scaled_huber", loss_options=given, epochs=5, random_state=0) for given in ({"threshold": 0.1}, {})
    )
    built_in = GARRegressor("huber", loss_options={"delta": 0.1}, epochs=5, random_state=0)
    np.testing.assert_array_equal(own.fit(X, Y).predict(X), built_in.fit(X, Y).predict(X))
    assert not np.array_equal(default.fit(X, Y).predict(X), own.predict(X))


def test_weights_and_missing_labels_reach_it() -> None:
    labels = np.where(np.arange(90) % 5 == 0, np.nan, Y)
    weight = 1.0 + np.arange(90) % 3
    own, built_in = (GARRegressorCV(loss, parameters=(0.5,), **QUICK) for loss in ("scaled_huber", "huber"))
    predictions = [model.fit(X, labels, sample_weight=weight).predict(X) for model in (own, built_in)]
    np.testing.assert_array_equal(predictions[0], predictions[1])


def test_other_options_are_refused() -> None:
    with pytest.raises(InputError, match="loss_options has 'delta', but 'scaled_huber' takes threshold"):
        GARRegressor("scaled_huber", loss_options={"delta": 1.0}).fit(X, Y)
