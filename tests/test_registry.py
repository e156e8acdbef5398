"""The lists that everything else asks, and losses from outside of the package."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gar import GARRegressor, GARRegressorCV, InputError, registry
from gar.registry import LOSSES, METRICS, PAPER_LOSSES, LossSpec, register, registered
from gar.search import RunContext, search
from gar.search.context import ALONE
from gar.stack import Models, StackData, TrainSettings, train


class LogCoshLoss(nn.Module):
    """The least that a loss needs: one value per model."""

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        return (pred - target).cosh().log().mean((-2, -1))


class QuantileLoss(nn.Module):
    """A tuned parameter, weights of rows and missing labels."""

    def __init__(self, level: float | Tensor = 0.5, *, nan_policy: str = "raise") -> None:
        super().__init__()
        self.level, self.nan_policy = torch.as_tensor(level), nan_policy

    def forward(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None) -> Tensor:
        known = ~target.isnan() if self.nan_policy == "omit" else torch.ones_like(target, dtype=torch.bool)
        error = torch.where(known, target - pred, 0.0)
        level = self.level.reshape(self.level.shape + (1,) * (error.ndim - self.level.ndim))
        weight = known.to(pred) if sample_weight is None else known * sample_weight.unsqueeze(-1)
        return (weight * torch.maximum(level * error, (level - 1) * error)).sum((-2, -1)) / weight.sum((-2, -1))


class SpreadLoss(nn.Module):
    """A loss on features: absolute errors, and a pull on the features."""

    def forward(self, pred: Tensor, target: Tensor, features: Tensor) -> Tensor:
        return (pred - target).abs().mean((-2, -1)) + 0.01 * features.square().mean((-2, -1))


SPECS = {
    "log_cosh_test": LossSpec(title="Log-cosh", module=LogCoshLoss),
    "quantile_test": LossSpec(title="Quantile", module=QuantileLoss, parameter="level", grid=(0.3, 0.5, 0.7)),
    "spread_test": LossSpec(title="Spread", module=SpreadLoss, inputs=("pred", "features")),
    "smooth_l1_test": LossSpec(title="Smooth L1", module=nn.SmoothL1Loss, parameter="beta", grid=(0.5, 1.0), stacked=False),
}


@pytest.fixture(autouse=True)
def own_losses() -> Iterator[None]:
    before = dict(registry._LOSSES)
    for name, spec in SPECS.items():
        register(name, spec)
    yield
    registry._LOSSES.clear()
    registry._LOSSES.update(before)


def table(rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(rows, 3))
    return x, x @ np.array([1.0, -2.0, 0.5])


def data(**more: Any) -> StackData:
    x, y = table()
    return StackData(x, y, [(np.arange(60), np.arange(60, 75), np.arange(75, 90))], **more)


@pytest.mark.parametrize("name", SPECS)
def test_a_stack_trains_with_an_outside_loss(name: str) -> None:
    """Alone or among others, a model learns the same, up to what the loss itself rounds."""
    settings = TrainSettings(loss=name, epochs=8, batch_size=20, hidden_sizes=(8,))
    models = Models.grid(learning_rates=(0.02, 0.05), parameters=SPECS[name].grid or None)
    history = train(data(), models, settings)
    assert (history.metrics[:, -1, 0, METRICS["mae"].index] < history.metrics[:, 0, 0, METRICS["mae"].index]).all()
    alone = train(data(), models.take(np.array([1])), settings)
    np.testing.assert_allclose(alone.metrics[0], history.metrics[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SPECS)
def test_estimators_take_it_by_name(name: str) -> None:
    x, y = table()
    model = GARRegressor(loss=name, epochs=30, random_state=0).fit(x, y)
    assert np.abs(model.predict(x) - y).mean() < np.abs(y - np.median(y)).mean()
    tuned = GARRegressorCV(loss=name, epochs=6, cv=2, random_state=0).fit(x, y)
    assert np.isfinite(tuned.predict(x)).all()


@pytest.mark.parametrize("dynamic", [False, True])
def test_worker_processes_know_it_too(dynamic: bool) -> None:
    name = "log_cosh_test"
    if dynamic:  # as defined in a notebook: no worker can import it

        class Local(nn.Module):
            def forward(self, pred: Tensor, target: Tensor) -> Tensor:
                return (pred - target).square().mean((-2, -1))

        name = "local_test"
        register(name, LossSpec(title="Local", module=Local))
    settings = TrainSettings(loss=name, epochs=3, batch_size=20, hidden_sizes=(4,))
    models = Models.grid(learning_rates=(0.02, 0.05), seeds=(1, 2))
    here = search(data(), models, settings, context=ALONE)
    there = search(data(), models, settings, context=RunContext(workers=2))
    np.testing.assert_allclose(there.metrics, here.metrics, rtol=1e-4, atol=1e-5)


def test_settings_take_registered_losses_along() -> None:
    settings = TrainSettings(loss="quantile_test")
    shipped = pickle.dumps(settings)
    del registry._LOSSES["quantile_test"]  # as in another process
    again = pickle.loads(shipped)
    assert again == settings
    assert again.spec is LOSSES["quantile_test"] or again.spec == SPECS["quantile_test"]
    assert registered(("gar", "quantile_test")) == {"quantile_test": SPECS["quantile_test"]}


def test_a_loss_with_its_own_gradient_needs_no_autograd() -> None:
    class Closed(nn.Module):
        def forward(self, pred: Tensor, target: Tensor) -> Tensor:
            raise AssertionError("the stack has a quicker way")

        def value_and_gradient(self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
            error = pred - target
            return error.square().mean((-2, -1)), 2 * error / error[0].numel()

    register("closed_test", LossSpec(title="Closed", module=Closed))
    models = Models.grid(learning_rates=(0.02, 0.05))
    settings = TrainSettings(epochs=2, batch_size=20, hidden_sizes=(4,), loss="mse")
    found, plain = (train(data(), models, replace(settings, loss=loss)) for loss in ("closed_test", "mse"))
    np.testing.assert_allclose(found.metrics, plain.metrics, rtol=1e-4)


def test_weights_and_missing_labels_reach_a_loss_that_takes_them() -> None:
    settings = TrainSettings(loss="quantile_test", epochs=2, batch_size=20, hidden_sizes=(4,))
    weighted = data(sample_weight=np.linspace(0, 2, 90))
    assert np.isfinite(train(weighted, Models.grid(learning_rates=(0.02,)), settings).metrics).all()
    weighted.y[3] = torch.nan
    assert np.isfinite(train(weighted, Models.grid(learning_rates=(0.02,)), settings).metrics).all()


def test_a_loss_that_cannot_is_refused_in_words() -> None:
    models, settings = Models.grid(learning_rates=(0.02,)), TrainSettings(loss="log_cosh_test", epochs=1, batch_size=20)
    with pytest.raises(InputError, match="Log-cosh takes no sample_weight; leave it out, or let its forward take"):
        train(data(sample_weight=np.ones(90)), models, settings)
    missing = data()
    missing.y[3] = torch.nan
    with pytest.raises(InputError, match="labels are missing, and Log-cosh cannot omit them; remove these rows"):
        train(missing, models, settings)
    register("single_test", LossSpec(title="Single", module=nn.L1Loss))
    with pytest.raises(InputError, match=r"gave shape \(\) for 1 models; expected one value per model, \(1,\).*stacked=False"):
        train(data(), models, TrainSettings(loss="single_test", epochs=1, batch_size=20))
    with pytest.raises(InputError, match="loss_options has 'level', but 'log_cosh_test' takes none"):
        TrainSettings(loss="log_cosh_test", loss_options={"level": 1})


def test_names_are_taken_once() -> None:
    register("log_cosh_test", SPECS["log_cosh_test"])
    redefined = type("LogCoshLoss", (LogCoshLoss,), {"__module__": LogCoshLoss.__module__, "__qualname__": "LogCoshLoss"})
    register("log_cosh_test", LossSpec(title="Log-cosh", module=redefined))  # the cell of a notebook, run again
    assert LOSSES["log_cosh_test"].loss is redefined
    with pytest.raises(InputError, match=r"a loss named 'log_cosh_test' \(Log-cosh\) exists already; choose another name"):
        register("log_cosh_test", SPECS["quantile_test"])
    with pytest.raises(InputError, match=r"a loss named 'gar' \(GAR\) exists already"):
        register("gar", SPECS["quantile_test"])
    with pytest.raises(InputError, match="name='log-cosh' cannot name a loss; use letters, digits and underscores"):
        register("log-cosh", SPECS["log_cosh_test"])


def test_the_default_of_a_comparison_does_not_grow() -> None:
    assert PAPER_LOSSES == ("mae", "mse", "huber", "focal_mae", "focal_mse", "ranksim", "rnc", "conr", "gar")
    assert set(SPECS).isdisjoint(PAPER_LOSSES)
    assert set(SPECS) <= set(LOSSES)


def test_metrics_have_a_direction_and_a_position() -> None:
    assert [spec.index for spec in METRICS.values()] == list(range(5))
    assert {name: spec.sign for name, spec in METRICS.items()} == {
        "mae": -1.0,
        "rmse": -1.0,
        "pearson": 1.0,
        "spearman": 1.0,
        "r2": 1.0,
    }
