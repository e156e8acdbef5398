"""What a caller can get wrong is reported before training starts, with the value, what was expected and what to do."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gar.errors import InputError
from gar.stack import Fold, Models, Scaling, StackData, TrainSettings, batch_sizes, chunks, row_orders, train
from gar.stack.chunking import available_bytes
from gar.stack.objective import first_of_each_label
from tests.stack.plain import make_data

X, Y, FOLDS = np.zeros((10, 2)), np.arange(10.0), [(np.arange(6), [6, 7], [8, 9])]


def bad_x(value: float) -> np.ndarray:
    x = X.copy()
    x[3, 1] = value
    return x


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: StackData(bad_x(np.inf), Y, FOLDS), "x has 1 NaN or infinite"),
        (lambda: StackData(bad_x(np.nan), Y, FOLDS), "x has 1 NaN or infinite"),
        (lambda: StackData(X, Y + np.inf, FOLDS), "y has infinite"),
        (lambda: StackData(X, Y[:9], FOLDS), "x has 10 rows, y has 9"),
        (lambda: StackData(X.astype(str), Y, FOLDS), "expected numbers"),
        (lambda: StackData(np.zeros((10, 2, 1)), Y, FOLDS), "x has shape"),
        (lambda: StackData(X, Y, []), "folds is empty"),
        (lambda: StackData(X, Y, [([0, 1], [2])]), "fold 0 has 2 parts"),
        (lambda: StackData(X, Y, [([], [2], [3])]), "fold 0 has no training rows"),
        (lambda: StackData(X, Y, [([0, 10], [2], [3])]), "indices from 0 to 9"),
        (lambda: StackData(X, Y, [([0.5], [2], [3])]), "row indices"),
        (lambda: StackData(X, Y, FOLDS, sample_weight=np.ones(9)), "sample_weight has shape"),
        (lambda: StackData(X, Y, FOLDS, sample_weight=-np.ones(10)), "sample_weight holds negative"),
        (lambda: Models(learning_rate=[0.1, -0.1]), "learning_rate holds -0.1"),
        (lambda: Models(weight_decay=np.inf), "weight_decay holds inf"),
        (lambda: Models(fold=[0, 1], seed=[1, 2, 3]), "lists of one length"),
        (lambda: Models(fold=0.5), "whole numbers"),
        (lambda: Models(fold=-1), "must not be negative"),
        (lambda: TrainSettings(loss="gra"), "loss='gra' is unknown"),
        (lambda: TrainSettings(optimizer="lion"), "optimizer='lion' is unknown"),  # type: ignore[arg-type]
        (lambda: TrainSettings(schedule="step"), "schedule='step' is unknown"),  # type: ignore[arg-type]
        (lambda: TrainSettings(monitor="loss"), "monitor='loss' is unknown"),  # type: ignore[arg-type]
        (lambda: TrainSettings(keep_best="loss"), "keep_best='loss' is unknown"),  # type: ignore[arg-type]
        (lambda: TrainSettings(epochs=0), "epochs=0 is not a whole number of 1 or more"),
        (lambda: TrainSettings(hidden_sizes=16), r"hidden_sizes=16 is not a sequence.*write \(16,\)"),  # type: ignore[arg-type]
        (lambda: TrainSettings(milestones=5), "milestones=5 is not a sequence"),  # type: ignore[arg-type]
        (lambda: TrainSettings(betas=(0.9,)), "betas="),  # type: ignore[arg-type]
        (lambda: TrainSettings(loss="ranksim", loss_options={"process_group": "world"}), "loss_options has 'process_group'"),
        (lambda: Models(learning_rate=[0.1, np.inf]), "learning_rate holds inf"),
        (lambda: TrainSettings(batch_size=2.5), "batch_size=2.5"),  # type: ignore[arg-type]
        (lambda: TrainSettings(hidden_sizes=(3, 0)), "hidden_sizes=0"),
        (lambda: TrainSettings(patience=0), "patience=0"),
        (lambda: TrainSettings(momentum=1.0), "momentum=1.0"),
        (lambda: TrainSettings(betas=(0.9, 1.0)), "betas="),
        (lambda: TrainSettings(eps=0.0), "eps=0.0"),
        (lambda: TrainSettings(pretrain_epochs=3), "pretrain_epochs=3 is for losses of features alone"),
        (lambda: TrainSettings(loss="rnc", epochs=5, pretrain_epochs=6), "pretrain_epochs=6 is out of range"),
        (lambda: TrainSettings(loss="rnc", finetune_loss="rnc"), "does not train the head"),
        (lambda: TrainSettings(loss="conr", hidden_sizes=()), "works on features"),
    ],
)
def test_bad_arguments(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build()


SETTINGS = TrainSettings(hidden_sizes=(4,), epochs=1, batch_size=4)


@pytest.mark.parametrize(
    ("models", "settings", "message"),
    [
        (Models(), replace(SETTINGS, batch_size=7), "fold 0 has 6 training rows, fewer than batch_size=7"),
        (Models(fold=1), SETTINGS, "asks for fold 1, but data has 1"),
        (Models(parameter=1.0), replace(SETTINGS, loss="mae"), "loss='mae' has no parameter"),
        (Models(parameter=-1.0), SETTINGS, "alpha=-1.0 is out of range"),
    ],
)
def test_bad_runs(models: Models, settings: TrainSettings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(StackData(X, Y, FOLDS), models, settings)


def test_bad_dtype_and_missing_validation() -> None:
    data = StackData(X, Y, [(np.arange(6), [], [8, 9])])
    with pytest.raises(InputError, match=r"dtype=torch\.float16 is not supported"):
        train(data, Models(), SETTINGS, dtype=torch.float16)
    with pytest.raises(InputError, match="fold 0 has no validation labels"):
        train(data, Models(), replace(SETTINGS, keep_best="mae"))
    history = train(data, Models(), SETTINGS)
    with pytest.raises(InputError, match="keep_final=True"):
        _ = history.final
    with pytest.raises(InputError, match="keep_best"):
        _ = history.best
    with pytest.raises(InputError, match="there are splits"):
        history.of("train", "mae")


def test_data_of_many_kinds() -> None:
    """Integers, lists and tensors of either precision."""
    tables: list[tuple[Any, Any]] = [
        (X.astype(int), Y.astype(int)),
        (X.tolist(), Y.tolist()),
        (torch.zeros(10, 2), torch.arange(10)),
    ]
    for x, y in tables:
        data = StackData(x, y, FOLDS)
        assert data.x.is_floating_point()
        assert data.y.shape == (10, 1)
        assert train(data, Models(), SETTINGS).metrics.shape == (1, 1, 2, 5)


def test_scaling_uses_training_rows_and_survives_constant_columns() -> None:
    data = make_data(scale_features=True, scale_labels=True)
    fold = data.folds[0]
    assert isinstance(fold.features, Scaling)
    rows = torch.from_numpy(fold.train)
    torch.testing.assert_close(fold.features.center, data.x[rows].mean(0))
    torch.testing.assert_close(fold.features.scale, data.x[rows].std(0, correction=0))
    scaling = Scaling.of(torch.tensor([[1.0, torch.nan, 3.0], [1.0, 2.0, torch.nan], [1.0, 4.0, torch.nan]]))
    assert scaling.center.tolist() == [1.0, 3.0, 3.0]
    assert scaling.scale.tolist() == [1.0, 1.0, 1.0]
    given = Fold(np.arange(6), np.array([6]), np.array([7]), features=scaling)
    assert StackData(X, Y, [given], scale_features=True).folds[0].features is scaling


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [7, 60, 1001])
def test_rounding_does_not_make_a_constant_column_vary(rows: int, dtype: torch.dtype) -> None:
    """The mean of many 0.1 may be a bit off; a test row with 0.3 would become 1e16 if it were divided by that bit."""
    constant = torch.full((rows, 2), 0.1, dtype=dtype) * torch.tensor([1.0, -1e9], dtype=dtype)
    for weight in (None, torch.rand(rows)):
        scaling = Scaling.of(constant, weight)
        assert scaling.scale.tolist() == [1.0, 1.0]
        torch.testing.assert_close(scaling.center, constant[0])


def test_weights_of_scaling_are_copies() -> None:
    values = torch.randn(20, 3, dtype=torch.float64)
    values[4, 1] = torch.nan
    weight = torch.randint(0, 4, (20,))
    weighted, copied = Scaling.of(values, weight), Scaling.of(values.repeat_interleave(weight, 0))
    torch.testing.assert_close(weighted.center, copied.center)
    torch.testing.assert_close(weighted.scale, copied.scale)
    values[weight == 0] = 1e6  # what does not count
    torch.testing.assert_close(Scaling.of(values, weight).scale, weighted.scale)


def test_scaling_in_a_table_counts_rows_by_their_weights() -> None:
    x, weight = torch.randn(10, 2), torch.tensor([0.0, 1, 2, 3, 1, 1, 1, 1, 1, 1])
    data = StackData(x, Y, FOLDS, sample_weight=weight, scale_features=True, scale_labels=True)
    expected = Scaling.of(x[:6].repeat_interleave(weight[:6].long(), 0))
    assert isinstance(data.folds[0].features, Scaling)
    torch.testing.assert_close(data.folds[0].features.center, expected.center)
    torch.testing.assert_close(data.folds[0].features.scale, expected.scale)


def test_validation_rows_that_do_not_count() -> None:
    weight = np.ones(10)
    weight[[6, 7]] = 0.0
    with pytest.raises(InputError, match="no validation labels that count"):
        train(StackData(X, Y, FOLDS, sample_weight=weight), Models(), replace(SETTINGS, keep_best="mae"))


def test_numbers_of_numpy_are_numbers() -> None:
    given = TrainSettings(epochs=np.int64(3), batch_size=np.int32(4), hidden_sizes=np.array([4, 2]), patience=np.int8(2))  # type: ignore[arg-type]
    assert given == TrainSettings(epochs=3, batch_size=4, hidden_sizes=(4, 2), patience=2)
    assert type(given.epochs) is int


def test_batches() -> None:
    assert batch_sizes(10, 4, drop_last=True) == (4, 4)
    assert batch_sizes(3, 4, drop_last=False) == (3,)
    orders = row_orders(7, 1, 20)
    first, second = next(orders), next(orders)
    assert sorted(first.tolist()) == list(range(20))
    assert first.tolist() != second.tolist()
    np.testing.assert_array_equal(first, next(row_orders(7, 1, 20)))
    assert first.tolist() != next(row_orders(7, 2, 20)).tolist()


def test_chunks_hold_every_model_once_and_equal_batches() -> None:
    data = make_data(rows=100, sizes=(60, 61, 60))
    models = Models.grid(folds=(0, 1, 2), learning_rates=np.linspace(0.1, 1, 7))
    indices = chunks(data, models, replace(SETTINGS, drop_last=False), limit=4, dtype=torch.float32)
    assert sorted(np.concatenate(indices).tolist()) == list(range(21))
    assert max(map(len, indices)) <= 4
    for chunk in indices:
        assert len({len(data.folds[fold].train) for fold in models.fold[chunk]}) == 1


def test_first_of_each_label() -> None:
    target = torch.tensor([[1.0], [2.0], [1.0], [2.0], [3.0]])
    assert first_of_each_label(target).tolist() == [True, True, False, False, True]
    weight = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0])
    assert first_of_each_label(target, weight).tolist() == [True, True, True, False, True]


def test_memory_is_asked_for_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data()
    with pytest.raises(InputError, match=r"training needs about \d+\.\d GiB, but .* are free; use smaller hidden_sizes than"):
        train(data, Models(), TrainSettings(hidden_sizes=(10**6, 10**6), epochs=1, batch_size=20))
    monkeypatch.setattr("gar.stack.chunking.available_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"or fewer rows than 60"):
        train(data, Models(), SETTINGS)
    monkeypatch.setattr("gar.stack.chunking.available_bytes", lambda: None)
    train(data, Models(), SETTINGS)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says how much memory is free")
def test_free_memory_is_known() -> None:
    free = available_bytes()
    assert free is not None
    assert 2**20 < free < 2**50
