"""A stack equals its members: G models trained together give the numbers of G plain loops, to 1e-9 in double precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from gar.errors import InputError
from gar.registry import LOSSES
from gar.stack import ExpandedFeatures, Models, PeriodicFeatures, PiecewiseFeatures, Scaling, StackData, TrainSettings, train
from gar.stack.network import Activation
from gar.stack.settings import Optimizer, Schedule
from tests.stack.plain import PlainTraining, make_data

SETTINGS = TrainSettings(hidden_sizes=(7, 5), epochs=4, batch_size=12, milestones=(1, 3), keep_final=True)


def two_folds(loss: str) -> Models:
    """Models that differ in everything a model can differ in."""
    grid = LOSSES[loss].grid
    return Models(
        fold=[0, 1, 0, 1, 0],
        seed=[1, 1, 2, 3, 1],
        learning_rate=[1e-2, 3e-2, 1e-3, 1e-2, 2e-2],
        weight_decay=[1e-3, 0.0, 1e-2, 1e-4, 0.0],
        parameter=[grid[g % 3] for g in range(5)] if grid else None,
    )


def assert_equals_members(data: StackData, models: Models, settings: TrainSettings) -> None:
    history = train(data, models, settings, dtype=torch.float64)
    for index in range(len(models)):
        alone = PlainTraining(data, models, index, settings).run()
        np.testing.assert_allclose(history.metrics[index], alone.metrics, rtol=1e-9, atol=1e-9)
        x = torch.linspace(-2.0, 2.0, 5 * data.inputs, dtype=torch.float64).reshape(5, data.inputs)
        torch.testing.assert_close(history.final.module(index)(x), alone.network(x), rtol=1e-9, atol=1e-9)
        if not settings.feature_gates:  # which become part of the first layer
            for mine, other in zip(history.final.module(index).parameters(), alone.network.parameters(), strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(loss: str) -> None:
    assert_equals_members(make_data(), two_folds(loss), replace(SETTINGS, loss=loss))


@pytest.mark.parametrize("schedule", ["constant", "multistep", "cosine"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_every_optimizer_and_schedule(optimizer: Optimizer, schedule: Schedule) -> None:
    assert_equals_members(make_data(), two_folds("gar"), replace(SETTINGS, optimizer=optimizer, schedule=schedule))


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_networks_large_enough_for_a_step_of_their_own(optimizer: Optimizer) -> None:
    assert_equals_members(make_data(), two_folds("gar"), replace(SETTINGS, hidden_sizes=(64, 64), optimizer=optimizer))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_two_phases(optimizer: Optimizer) -> None:
    """The head is untouched by the first phase, decay included, and counts its Adam steps from the second."""
    settings = replace(SETTINGS, loss="rnc", epochs=5, pretrain_epochs=2, optimizer=optimizer)
    assert_equals_members(make_data(), two_folds("rnc"), settings)


@pytest.mark.parametrize("loss", ["gar", "mae", "conr", "ranksim"])
def test_several_targets_and_incomplete_batches(loss: str) -> None:
    data = make_data(targets=3, sizes=(40, 40))
    assert_equals_members(data, two_folds(loss), replace(SETTINGS, loss=loss, drop_last=False))


def test_unequal_folds() -> None:
    """Folds with other numbers of rows and batches live in one call; also where a batch has a single row."""
    data = make_data(rows=70, sizes=(25, 50))
    assert_equals_members(data, two_folds("gar"), replace(SETTINGS, drop_last=False))


def test_even_batches() -> None:
    settings = replace(SETTINGS, drop_last=False, even_batches=True, batch_size=13)
    assert_equals_members(make_data(rows=70, sizes=(27, 50)), two_folds("gar"), settings)


def test_fewer_rows_than_a_batch() -> None:
    assert_equals_members(make_data(), two_folds("gar"), replace(SETTINGS, drop_last=False, batch_size=64))


@pytest.mark.parametrize("loss", ["gar", "mse", "conr", "rnc"])
def test_missing_labels(loss: str) -> None:
    data = make_data(targets=2)
    y = data.y.clone()
    y[::7, 0], y[3::11, 1] = torch.nan, torch.nan
    assert_equals_members(StackData(data.x, y, data.folds), two_folds(loss), replace(SETTINGS, loss=loss))


@pytest.mark.parametrize("loss", ["gar", "huber", "rnc"])
def test_sample_weights(loss: str) -> None:
    data = make_data()
    weight = np.random.default_rng(1).integers(0, 3, len(data.x)).astype(float)
    assert_equals_members(
        StackData(data.x, data.y, data.folds, sample_weight=weight), two_folds(loss), replace(SETTINGS, loss=loss)
    )


@pytest.mark.parametrize("reduction", ["pooled", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_in_groups(reduction: str, weighted: bool) -> None:
    random = np.random.default_rng(1)
    weight = random.integers(0, 3, 60).astype(float) if weighted else None
    data = make_data(targets=2, pair_groups=random.integers(0, 5, 60), sample_weight=weight)
    assert_equals_members(data, two_folds("gar"), replace(SETTINGS, loss_options={"group_reduction": reduction}))


@pytest.mark.parametrize("loss", ["pearson", "concordance", "nash_sutcliffe", "kling_gupta", "norm_in_norm"])
def test_losses_of_agreement_in_groups(loss: str) -> None:
    data = make_data(pair_groups=np.arange(60) % 4)
    options = {"level": "deviation"} if loss == "kling_gupta" else {}
    assert_equals_members(data, two_folds(loss), replace(SETTINGS, loss=loss, loss_options=options))


def test_a_loss_that_compares_no_rows_takes_no_groups() -> None:
    data = make_data(pair_groups=np.arange(60) % 4)
    with pytest.raises(InputError, match="loss='mae' compares no rows"):
        train(data, two_folds("mae"), replace(SETTINGS, loss="mae"))


def test_scaled_features_and_labels() -> None:
    """Models learn scaled labels; metrics are in the units of the table."""
    assert_equals_members(make_data(targets=2, scale_features=True, scale_labels=True), two_folds("gar"), SETTINGS)


@pytest.mark.parametrize("hidden", [(), (1,), (33, 2, 17), (64, 64)])
def test_any_widths(hidden: tuple[int, ...]) -> None:
    assert_equals_members(make_data(features=1), two_folds("gar"), replace(SETTINGS, hidden_sizes=hidden))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("gates", [False, True])
@pytest.mark.parametrize("activation", ["elu", "silu"])
def test_activations_and_feature_gates(activation: Activation, gates: bool, optimizer: Optimizer) -> None:
    settings = replace(SETTINGS, activation=activation, feature_gates=gates, optimizer=optimizer, drop_last=False)
    assert_equals_members(make_data(features=4), two_folds("gar"), settings)


def test_gates_in_two_phases_and_without_hidden_layers() -> None:
    assert_equals_members(make_data(), two_folds("rnc"), replace(SETTINGS, loss="rnc", feature_gates=True, activation="silu"))
    assert_equals_members(make_data(), two_folds("gar"), replace(SETTINGS, hidden_sizes=(), feature_gates=True))


@pytest.mark.parametrize("encoding", ["periodic", "piecewise"])
def test_expanded_features(encoding: str) -> None:
    plain = make_data(features=3)

    def expanded(index: int, x: Tensor) -> ExpandedFeatures:
        if encoding == "periodic":
            return PeriodicFeatures.draw(Scaling.of(x), (0, 2), 5, seed=(index,))
        return PiecewiseFeatures.of(Scaling.of(x), (0, 2), 5, x)

    folds = [
        replace(fold, features=expanded(index, plain.x[torch.from_numpy(fold.train)])) for index, fold in enumerate(plain.folds)
    ]
    data = StackData(plain.x, plain.y, folds)
    assert data.inputs == 3 + 2 * 5
    assert_equals_members(data, two_folds("gar"), replace(SETTINGS, feature_gates=True, activation="silu"))


def test_options_of_the_loss() -> None:
    settings = replace(SETTINGS, loss_options={"weights": (1.0, 0.5, 1.0), "correction": 1})
    assert_equals_members(make_data(), two_folds("gar"), settings)
