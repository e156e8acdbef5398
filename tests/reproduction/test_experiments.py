"""Experiments as data: the paper's grids, and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from gar.errors import InputError
from gar.registry import PAPER_LOSSES
from gar.stack import StackData
from gar_reproduction import protocol
from gar_reproduction.cell import Cell, flops
from gar_reproduction.data.splits import has_authors_split
from gar_reproduction.experiments import CELL_EXPERIMENTS, cells
from gar_reproduction.names import EXPERIMENTS, TASKS
from gar_reproduction.protocol import table_data
from tests.reproduction.conftest import small_table

COUNTS = {
    "table1": 7 * 9,
    "standardized": 4 * 9,
    "ablation": 4 * 7,
    "alpha": 4,
    "batch-size": 4 * 5,
    "selected-alpha": 7,
    "synthetic": 2 * 6,
    "depth": 5 * 5,
    "by-subject": 2 * 9,
    "train-statistics": 4 * 9,
    "differences": 2 * 9 + 4 + 2 * (3 + 3) + 4 + 2 * 5,
}


def cell_named(experiment: str, task: str, variant: str) -> Cell:
    (cell,) = cells(experiment, tasks=[task], methods=[variant])
    return cell


@pytest.mark.parametrize("experiment", CELL_EXPERIMENTS)
def test_counts_and_names(experiment: str) -> None:
    found = cells(experiment)
    assert len(found) == COUNTS[experiment]
    assert len({cell.name for cell in found}) == len(found)
    assert all(cell.task in TASKS for cell in found)


def test_all_experiments_but_three_consist_of_cells() -> None:
    assert set(CELL_EXPERIMENTS) == set(EXPERIMENTS) - {"runtime", "symbolic", "agedb"}


@pytest.mark.parametrize("experiment", ["table1", "standardized", "ablation", "batch-size", "by-subject", "train-statistics"])
def test_every_variant_has_45_runs_a_fold(experiment: str) -> None:
    for cell in cells(experiment):
        assert np.bincount(cell.models.fold).tolist() == [45] * 5, cell.name


def test_the_protocol_of_tables() -> None:
    for method in PAPER_LOSSES:
        cell = cell_named("table1", "concrete", method)
        settings, models = cell.settings, cell.models
        assert (settings.epochs, settings.batch_size, settings.drop_last, settings.milestones) == (100, 256, True, (50, 75))
        assert (settings.optimizer, settings.momentum, settings.schedule) == ("sgd", 0.9, "multistep")
        assert settings.hidden_sizes == (16, 32, 16, 8)
        assert set(models.learning_rate) == {1e-1, 1e-2, 1e-3, 1e-4, 1e-5}
        assert set(models.weight_decay) == {1e-3, 1e-4, 1e-5}
        assert set(models.seed) == ({123, 124, 125} if method in ("mae", "mse") else {123})
    assert cell_named("table1", "parkinson-total", "gar").settings.hidden_sizes == (128, 256, 128, 64)
    alphas = cell_named("table1", "concrete", "gar").models.parameter
    assert alphas is not None
    assert set(alphas) == {0.1, 1.0, 10.0}


def test_the_protocol_of_curves() -> None:
    for method in ("mae", "rnc", "gar"):
        cell = cell_named("synthetic", "sine", method)
        settings = cell.settings
        assert (settings.hidden_sizes, settings.epochs, settings.batch_size) == ((100,) * 5, 300, 128)
        assert (settings.optimizer, settings.milestones) == ("adam", (100, 200))
        assert settings.first_phase_epochs == (100 if method == "rnc" else 300)
        assert set(cell.models.seed) == {1, 2, 3, 4, 5}
        assert len(cell.models) == 5 * 4 * 4 * (3 if method == "rnc" else 1)
    assert len(cell_named("depth", "sine", "gar-10").settings.hidden_sizes) == 10
    assert len(cell_named("depth", "sine", "gar-10").models) == 5 * 16 * 3


def test_the_whole_of_the_ablation_is_the_first_tables_gar() -> None:
    """So that its runs, which search knows by their content, are made once."""
    one, other = cell_named("ablation", "wine", "gar"), cell_named("table1", "wine", "gar")
    assert one.settings == other.settings
    assert one.plan == other.plan != cell_named("ablation", "wine", "mae+diff").plan


def test_unknown_names_are_errors() -> None:
    with pytest.raises(InputError, match="'nonsense' is no experiment"):
        cells("nonsense")
    with pytest.raises(InputError, match="'iris' is no task of table1; there are concrete, gdsc"):
        cells("table1", tasks=["iris"])
    with pytest.raises(InputError, match="'svm' is no method of table1"):
        cells("table1", methods=["svm"])
    assert cells("table1", tasks=["sine"], strict=False) == []


def test_the_key_of_a_cell_is_of_all_that_matters() -> None:
    cell, data = cell_named("table1", "concrete", "gar"), small_table()
    key = cell.key(data)
    assert cell.key(small_table()) == key
    assert replace(cell, settings=replace(cell.settings, epochs=99)).key(data) != key
    assert replace(cell, models=cell.models.take(range(224))).key(data) != key
    assert cell.key(StackData(data.x, data.y + 1e-3, data.folds)) != key
    assert cell.key(StackData(data.x * (1 + 1e-15), data.y, data.folds)) == key  # the last bit is the machine's own
    others = [replace(cell.settings, monitor="rmse"), replace(cell.settings, keep_final=True), replace(cell.settings, patience=9)]
    assert len({key, *(replace(cell, settings=settings).key(data) for settings in others)}) == 4


def test_operations_are_counted_by_hand() -> None:
    """One model, 40 training rows in ten batches, 10 validation and 10 test rows, 4 x 5 + 5 weights, 3 epochs."""
    cell = cell_named("table1", "concrete", "gar")
    cell = replace(cell, models=cell.models.take([0]), settings=replace(cell.settings, hidden_sizes=(5,), epochs=3, batch_size=4))
    assert flops(small_table(), cell.models, cell.settings) == 2 * 25 * (3 * 40 + 10 + 10) * 3


def test_the_authors_split_is_used_where_it_is(data_home: Path) -> None:
    data = table_data("concrete")
    assert data.x.shape == (1030, 8)
    assert [len(fold.test) for fold in data.folds] == [206] * 5
    assert "authors" in cell_named("table1", "concrete", "gar").origin()[0]
    origin = " ".join(cell_named("table1", "superconductivity", "gar").origin())
    assert "drawn anew by their random numbers" in origin
    assert "recomputed" in origin


def test_the_authors_split_is_drawn_where_its_file_is_not(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The public table has a digit less than the authors' file, so numbers are near and not the same."""
    if not has_authors_split("concrete"):
        pytest.skip("the authors' file for concrete is not in the data folder")
    theirs = table_data("concrete")
    monkeypatch.setattr("gar_reproduction.data.splits.has_authors_split", lambda task: False)
    drawn = table_data.__wrapped__("concrete")
    np.testing.assert_allclose(drawn.y, theirs.y, atol=0.006)
    np.testing.assert_allclose(drawn.x, theirs.x, atol=0.01)
    assert "drawn anew" in protocol.table_origin("concrete")[0]
    assert not np.allclose(table_data.__wrapped__("concrete", is_fresh=True).y, theirs.y, atol=0.006)


def test_the_split_by_person_says_what_a_constant_is_worth(data_home: Path) -> None:
    data = protocol.subject_data("parkinson-total")
    scores = {"median": ("MAE", mean_absolute_error), "mean": ("RMSE", root_mean_squared_error)}
    sentences = " ".join(cell_named("by-subject", "parkinson-total", "gar").origin())
    for strategy, (title, error) in scores.items():
        of_folds = []
        for fold in data.folds:
            constant = DummyRegressor(strategy=strategy).fit(data.x[fold.train], data.y[fold.train])
            of_folds.append(error(data.y[fold.test], constant.predict(data.x[fold.test])))
        assert f"{title} {np.mean(of_folds):.3f}({np.std(of_folds):.3f})" in sentences
