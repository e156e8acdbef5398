"""The winner of each fold, against a loop that cannot be wrong."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gar.errors import InputError
from gar.registry import METRICS
from gar.search import Selection, select
from gar.stack import SPLITS, History, Models
from tests.search.problem import SETTINGS, search, small_data, small_models

MODELS = Models.grid(folds=(0, 2), seeds=(1, 2), learning_rates=(0.1, 0.01), parameters=(1.0, 2.0))


def random_history(seed: int, digits: int) -> History:
    """Few digits make ties; some values are NaN, some infinite, and some models end early."""
    generator = np.random.default_rng(seed)
    metrics = generator.normal(size=(len(MODELS), 5, 2, 5)).round(digits)
    metrics[generator.random(metrics.shape) < 0.1] = np.nan
    metrics[generator.random(metrics.shape) < 0.05] = np.inf
    metrics[generator.random(metrics.shape) < 0.05] = -np.inf
    ends = generator.integers(1, 6, len(MODELS))
    for g, end in enumerate(ends):
        metrics[g, end:] = np.nan
    metrics[0, 0, :, :] = metrics[8, 0, :, :] = 0.0  # so that each fold has a value
    empty = History.empty(None, len(MODELS), replace(SETTINGS, epochs=5, keep_best=None, keep_final=False), dtype=None)  # type: ignore[arg-type]
    return replace(empty, metrics=metrics, failed_epoch=np.where(ends < 5, ends, -1))


def slow_winner(history: History, models: Models, metric: str, fold: int) -> tuple[int, int]:
    best, winner = None, (-1, -1)
    column, sign = METRICS[metric].index, -METRICS[metric].sign
    assert models.parameter is not None
    for g in range(len(models)):
        for epoch in range(history.metrics.shape[1]):
            value = float(history.metrics[g, epoch, 0, column])
            if models.fold[g] != fold or not math.isfinite(value):
                continue
            rank = (sign * value, models.seed[g], models.learning_rate[g], models.weight_decay[g], models.parameter[g], epoch)
            if best is None or rank < best:
                best, winner = rank, (g, epoch)
    return winner


@given(seed=st.integers(0, 10**6), digits=st.integers(0, 3), metric=st.sampled_from(tuple(METRICS)))
def test_against_a_loop(seed: int, digits: int, metric: str) -> None:
    history = random_history(seed, digits)
    chosen = select(history, MODELS, metric)
    assert chosen.fold.tolist() == [0, 2]
    for index, fold in enumerate((0, 2)):
        model, epoch = slow_winner(history, MODELS, metric, fold)
        assert (chosen.model[index], chosen.epoch[index]) == (model, epoch)
        np.testing.assert_array_equal(chosen.values[index], history.metrics[model, epoch])


@given(seed=st.integers(0, 10**6), metric=st.sampled_from(tuple(METRICS)))
def test_order_of_models_does_not_matter(seed: int, metric: str) -> None:
    history = random_history(seed, 0)
    order = np.random.default_rng(seed).permutation(len(MODELS))
    shuffled = replace(history, metrics=history.metrics[order], failed_epoch=history.failed_epoch[order])
    one, other = select(history, MODELS, metric), select(shuffled, MODELS.take(order), metric)
    assert one.model.tolist() == order[other.model].tolist()
    assert one.epoch.tolist() == other.epoch.tolist()


def test_mean_and_deviation_over_folds() -> None:
    values = np.arange(30.0).reshape(3, 2, 5)
    chosen = Selection("mae", np.arange(3), np.zeros(3, int), np.zeros(3, int), values)
    for s, split in enumerate(SPLITS):
        for m, metric in enumerate(METRICS):
            column = values[:, s, m].tolist()
            mean = sum(column) / 3
            assert chosen.mean(split, metric) == pytest.approx(mean)
            assert chosen.std(split, metric) == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in column) / 3))


def test_failed_models_count_until_they_fail() -> None:
    history = random_history(0, 3)
    history.metrics[:] = 1.0
    history.metrics[3, 1:] = np.nan
    history.metrics[3, 0, 0, 0] = 0.5
    history.failed_epoch[3] = 1
    chosen = select(history, MODELS, "mae")
    assert (chosen.model[0], chosen.epoch[0]) == (3, 0)


def test_real_search() -> None:
    history = search(small_data(), small_models(), SETTINGS)
    chosen = select(history, small_models(), "spearman")
    assert chosen.fold.tolist() == [0, 1, 2]
    assert (small_models().fold[chosen.model] == chosen.fold).all()
    assert (history.failed_epoch[chosen.model] == -1).all()
    assert np.isfinite(chosen.values).all()


def test_fold_whose_models_all_failed() -> None:
    history = random_history(0, 3)
    mine = MODELS.fold == 2
    history.metrics[mine], history.failed_epoch[mine] = np.nan, 0
    with pytest.raises(InputError, match="all 8 models of fold 2 failed"):
        select(history, MODELS, "mae")


def test_fold_without_validation() -> None:
    history = random_history(0, 3)
    history.metrics[MODELS.fold == 0, :, 0] = np.nan
    with pytest.raises(InputError, match="fold 0 has a validation mae"):
        select(history, MODELS, "mae")


def test_what_cannot_be_selected() -> None:
    history = random_history(0, 3)
    with pytest.raises(InputError, match="history has 16 models, models 1"):
        select(history, Models(), "mae")
    with pytest.raises(InputError, match="accuracy"):
        select(history, MODELS, "accuracy")
    with pytest.raises(InputError, match="train"):
        select(history, MODELS, "mae").of("train", "mae")
    with pytest.raises(InputError, match="no models"):
        select(search(small_data(), Models.grid(folds=()), SETTINGS), Models.grid(folds=()), "mae")
