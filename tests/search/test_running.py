"""Who trains what, and where, changes nothing."""

from pathlib import Path

import joblib
import numpy as np
import pytest
import torch

from gar.errors import InputError
from gar.search.grid import Job, to_shared, train_chunk
from gar.stack import History, Models, StackData, TrainSettings, train
from tests.search.problem import LONG, SETTINGS, assert_same, many_models, search, small_data, small_models, start
from tests.stack.plain import make_data


@pytest.fixture(scope="module")
def expected() -> History:
    return train(small_data(), small_models(), SETTINGS)


@pytest.mark.parametrize(
    ("workers", "backend", "chunk_size"),
    [(1, None, None), (1, "loky", 1), (1, None, 7), (2, None, None), (2, "loky", 5), (-1, "threading", 4), (2, "sequential", 3)],
)
def test_workers_backend_and_chunks(workers: int, backend: str | None, chunk_size: int | None, expected: History) -> None:
    assert (expected.failed_epoch >= 0).sum() == 12
    result = search(small_data(), small_models(), SETTINGS, workers=workers, backend=backend, chunk_size=chunk_size)
    assert_same(result, expected)


def test_backend_of_the_context(expected: History) -> None:
    with joblib.parallel_config(backend="threading"):
        assert_same(search(small_data(), small_models(), SETTINGS, workers=2), expected)


def test_backend_without_single_results(tmp_path: Path) -> None:
    """Multiprocessing forks, so it gets a process of its own; its records are then read here."""
    process = start(tmp_path, "--workers", "2", "--backend", "multiprocessing", "--epochs", "2")
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    settings = TrainSettings(**{**vars(LONG), "epochs": 2})
    before = sorted(tmp_path.rglob("*.npz"))
    assert len(before) >= 2
    assert_same(search(small_data(), many_models(), settings, records=tmp_path), train(small_data(), many_models(), settings))
    assert sorted(tmp_path.rglob("*.npz")) == before


@pytest.mark.parametrize("workers", [1, 2])
def test_order_of_models(workers: int) -> None:
    order = np.random.default_rng(0).permutation(len(small_models()))
    models = small_models().take(order)
    assert_same(search(small_data(), models, SETTINGS, workers=workers, chunk_size=5), train(small_data(), models, SETTINGS))


def test_models_that_occur_twice(tmp_path: Path) -> None:
    models = small_models().take([5, 1, 5, 5, 0])
    assert_same(search(small_data(), models, SETTINGS, records=tmp_path), train(small_data(), models, SETTINGS))
    assert_same(search(small_data(), models, SETTINGS, records=tmp_path), train(small_data(), models, SETTINGS))


def test_large_table_and_double_precision() -> None:
    """Arrays of more than a megabyte reach workers as read-only files; weights and missing labels come along."""
    small = make_data(rows=3000, features=60, targets=2, sizes=(64, 64))
    y = small.y.clone()
    y[::7, 0] = torch.nan
    data = StackData(small.x, y, small.folds, sample_weight=torch.linspace(0, 1, 3000), scale_features=True)
    settings = TrainSettings(hidden_sizes=(8,), epochs=2, batch_size=32, keep_final=True)
    models = Models.grid(folds=(0, 1), parameters=(0.5, 1.0))
    assert data.x.nbytes > 2**20
    result = search(data, models, settings, workers=2, dtype=torch.float64)
    expected = train(data, models, settings, dtype=torch.float64)
    assert torch.equal(result.final.weights, expected.final.weights)
    np.testing.assert_array_equal(result.metrics, expected.metrics)


def test_tables_that_are_read_only(expected: History) -> None:
    """Some backends deliver such arrays, about which torch would warn."""
    table = to_shared(small_data())
    arrays = [value for value in table.values() if isinstance(value, np.ndarray)]
    folds = table["folds"]
    assert isinstance(folds, tuple)
    for array in [*arrays, *(rows for fold in folds for rows in (fold.train, fold.valid, fold.test))]:
        array.setflags(write=False)
    indices = np.arange(5)
    number, part = train_chunk(3, table, small_models().take(indices), Job(SETTINGS, "cpu", torch.float32))
    assert number == 3
    np.testing.assert_array_equal(part.metrics, expected.metrics[indices])


def test_half_precision_tables_reach_workers() -> None:
    small = small_data()
    data = StackData(small.x.bfloat16(), small.y.half(), [(f.train, f.valid, f.test) for f in small.folds])
    assert_same(search(data, small_models(), SETTINGS), train(data, small_models(), SETTINGS))


def test_number_of_threads_is_left_as_it_was() -> None:
    torch.set_num_threads(2)
    try:
        search(small_data(), small_models().take([0]), SETTINGS)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_no_models(tmp_path: Path) -> None:
    assert len(search(small_data(), Models.grid(folds=()), SETTINGS, records=tmp_path, workers=2)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers=0"),
        ({"workers": 1.5}, r"workers=1\.5"),
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"backend": "nonsense", "workers": 2}, "backend='nonsense'"),
    ],
)
def test_options_that_make_no_sense(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        search(small_data(), small_models(), SETTINGS, **options)


def test_fold_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="fold 3"):
        search(small_data(), Models(fold=[0, 3]), SETTINGS)


def test_errors_of_workers_reach_the_caller() -> None:
    with pytest.raises(InputError, match="has no parameter"):
        search(small_data(), small_models(), TrainSettings(loss="mae", batch_size=32), workers=2)
