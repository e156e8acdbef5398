"""A model's numbers are its own: chunks, neighbours, order and failures of others change not a single bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gar.registry import LOSSES
from gar.stack import History, Models, StackData, TrainSettings, passes as passes_module, train
from gar.stack.settings import Optimizer
from tests.stack.plain import make_data

SETTINGS = TrainSettings(hidden_sizes=(16, 9), epochs=3, batch_size=32, milestones=(2,), keep_final=True)
DTYPES = [torch.float32, torch.float64]


def many(loss: str = "gar") -> Models:
    grid = LOSSES[loss].grid or None
    return Models.grid(folds=(0, 1, 2), seeds=(1, 2), learning_rates=(1e-2, 1e-3), weight_decays=(0.0, 1e-3), parameters=grid)


def assert_same(one: History, other: History) -> None:
    """Bit for bit."""
    np.testing.assert_array_equal(one.metrics, other.metrics)
    np.testing.assert_array_equal(one.failed_epoch, other.failed_epoch)
    assert one.final_weights is not None
    assert other.final_weights is not None
    assert torch.equal(one.final_weights.nan_to_num(), other.final_weights.nan_to_num())


def part(history: History, indices: np.ndarray) -> History:
    assert history.final_weights is not None
    return replace(
        history,
        metrics=history.metrics[indices],
        failed_epoch=history.failed_epoch[indices],
        final_weights=history.final_weights[torch.from_numpy(indices)],
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chunk", [1, 2, 5, 7, 16, 1000])
def test_chunks_of_any_size(chunk: int, dtype: torch.dtype) -> None:
    data = make_data(rows=100, features=8, sizes=(70, 70, 75))
    settings = replace(SETTINGS, drop_last=False)
    whole = train(data, many(), settings, dtype=dtype)
    assert_same(train(data, many(), settings, dtype=dtype, chunk_size=chunk), whole)


@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_chunks_with_gates_and_silu(optimizer: Optimizer, chunk: int) -> None:
    data = make_data(rows=100, features=7, sizes=(70, 70, 70))
    settings = replace(SETTINGS, feature_gates=True, activation="silu", optimizer=optimizer)
    assert_same(train(data, many(), settings, chunk_size=chunk), train(data, many(), settings))


@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_chunks_for_every_loss(loss: str, chunk: int) -> None:
    data = make_data(rows=100, features=8, sizes=(70, 70, 70))
    settings = replace(SETTINGS, loss=loss, hidden_sizes=(8, 16))
    assert_same(train(data, many(loss), settings, chunk_size=chunk), train(data, many(loss), settings))


@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("reduction", ["pooled", "mean"])
def test_chunks_with_pairs_in_groups(reduction: str, chunk: int) -> None:
    data = make_data(rows=100, features=8, targets=2, sizes=(70, 70, 70), pair_groups=np.arange(100) % 9)
    settings = replace(SETTINGS, loss_options={"group_reduction": reduction}, drop_last=False)
    assert_same(train(data, many(), settings, chunk_size=chunk), train(data, many(), settings))


@pytest.mark.parametrize("loss", ["rnc", "ranksim", "conr"])
def test_chunks_with_incomplete_batches_of_features(loss: str) -> None:
    """Rows and widths that fill no vector register."""
    data = make_data(rows=100, features=8, sizes=(71, 71, 71))
    settings = replace(SETTINGS, loss=loss, hidden_sizes=(8, 11), drop_last=False)
    assert_same(train(data, many(loss), settings, chunk_size=1), train(data, many(loss), settings))


@pytest.mark.parametrize("features", [1, 8, 19])
@pytest.mark.parametrize("hidden", [(16, 32, 16, 8), (128, 256, 128, 64), (100, 100), (5, 3, 1)])
def test_chunks_for_every_shape(features: int, hidden: tuple[int, ...]) -> None:
    """Results of the matrix library do not depend on how many products there are, nor on their order."""
    data = make_data(rows=300, features=features, targets=2, sizes=(200, 200, 200))
    settings = replace(SETTINGS, hidden_sizes=hidden, epochs=2, batch_size=64)
    models = many().take(range(0, 72, 5))
    assert_same(train(data, models, settings, chunk_size=4), train(data, models, settings))


@pytest.mark.parametrize("cache", [1, 10**5, 10**9])
def test_blocks_of_any_size(cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(rows=100, features=8, sizes=(70, 70, 70))
    whole = train(data, many(), SETTINGS)
    monkeypatch.setattr(passes_module, "CACHE_BYTES", cache)
    assert_same(train(data, many(), SETTINGS), whole)


def test_order_of_models() -> None:
    data = make_data(rows=100, features=8, sizes=(70, 70, 75))
    order = np.random.default_rng(0).permutation(len(many()))
    assert_same(train(data, many().take(order), SETTINGS), part(train(data, many(), SETTINGS), order))


def test_equal_labels_of_ranksim() -> None:
    """RankSim draws one row of each label: the draw belongs to (seed, fold) too."""
    data = make_data(rows=100, features=8, sizes=(70, 70, 70))
    data = StackData(data.x, data.y.round(decimals=0), data.folds)
    settings = replace(SETTINGS, loss="ranksim")
    assert_same(train(data, many("ranksim"), settings, chunk_size=5), train(data, many("ranksim"), settings))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_failures_leave_the_rest_alone(dtype: torch.dtype, optimizer: Optimizer) -> None:
    """Models with an absurd learning rate diverge, are marked with their epoch, and nobody notices."""
    data = make_data(rows=100, features=8, sizes=(70, 70, 75))
    good, settings = many("mse"), replace(SETTINGS, loss="mse", epochs=5, optimizer=optimizer)
    rates = good.learning_rate.copy()
    bad = np.arange(0, len(good), 3)
    rates[bad] = 1e300 if dtype == torch.float64 else 1e30
    mixed = Models(fold=good.fold, seed=good.seed, learning_rate=rates, weight_decay=good.weight_decay)
    rest = np.setdiff1d(np.arange(len(good)), bad)
    history = train(data, mixed, settings, dtype=dtype)
    assert (history.failed_epoch[bad] >= 0).all()
    assert (history.failed_epoch[rest] == -1).all()
    assert_same(part(history, rest), train(data, mixed.take(rest), settings, dtype=dtype))
    for g in bad:
        first = history.failed_epoch[g]
        assert np.isfinite(history.metrics[g, :first]).all()
        assert np.isnan(history.metrics[g, first:]).all()
        assert history.epochs_run[g] == first


def test_all_fail() -> None:
    data = make_data(rows=100, features=8, sizes=(70,))
    history = train(data, Models(learning_rate=[1e30, 1e30]), replace(SETTINGS, loss="mse"))
    assert (history.failed_epoch >= 0).all()
    assert torch.isnan(history.final.weights).all()


def test_global_random_numbers_are_neither_used_nor_changed() -> None:
    data = make_data(rows=100, features=8, sizes=(70, 70, 70))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = train(data, many(), SETTINGS)
    assert torch.equal(torch.rand(3), expected)
    assert_same(train(data, many(), SETTINGS), first)
