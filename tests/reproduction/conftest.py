"""A whole reproduction in small: the same experiments with tiny networks, few epochs and small tables, run for real."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gar.search import RunContext
from gar.stack import StackData
from gar_reproduction import experiments
from gar_reproduction.cell import Cell
from gar_reproduction.execution import run_cells


def is_kept(cell: Cell) -> bool:
    """Keep one table that is run, one that is not, one for each experiment that has neither, and two depths of the sine."""
    if cell.experiment == "depth":
        return cell.variant.endswith(("-2", "-10"))
    return cell.task in ("concrete", "gdsc", "sine") or (cell.experiment, cell.task) == ("by-subject", "parkinson-total")


def small_table() -> StackData:
    """Return sixty rows, five folds, one target."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 4))
    y = 20 + 5 * x[:, :1] + 3 * np.sin(2 * x[:, 1:2]) + rng.normal(size=(60, 1))
    rows = np.arange(10, 60).reshape(5, 10)
    folds = [(np.delete(rows, fold, 0).ravel(), rows[fold], np.arange(10)) for fold in range(5)]
    return StackData(x, y, folds)


def standardized_table() -> StackData:
    data = small_table()
    return StackData(data.x, data.y, data.folds, scale_labels=True)


def in_small(cell: Cell) -> Cell:
    """Return the same cell with little to compute."""
    models = cell.models
    kept = np.flatnonzero((models.learning_rate == 1e-2) & (models.weight_decay == 1e-4))
    settings = replace(cell.settings, hidden_sizes=(4,), epochs=2, milestones=(1,), pretrain_epochs=None)
    if cell.recorded == "curve":
        return replace(cell, models=models.take(kept), settings=settings)
    load = standardized_table if cell.experiment == "standardized" else small_table
    settings = replace(settings, batch_size=max(4, settings.batch_size // 16))
    return replace(cell, models=models.take(kept), settings=settings, load=load, origin=lambda: ("A small table.",))


@contextmanager
def small_world() -> Iterator[None]:
    """Every experiment has small cells, and there is no data folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GAR_DATA_HOME", raising=False)
        for name, make in list(experiments._CELLS.items()):
            patch.setitem(experiments._CELLS, name, partial(list, [in_small(cell) for cell in make() if is_kept(cell)]))
        yield


@pytest.fixture
def small() -> Iterator[None]:
    with small_world():
        yield


@pytest.fixture(scope="session")
def small_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of all experiments but one task, which is not run."""
    folder = tmp_path_factory.mktemp("paper")
    context = RunContext(records=folder / "scratch")
    with small_world():
        for name in experiments.CELL_EXPERIMENTS:
            chosen = [cell for cell in experiments.cells(name) if cell.task != "gdsc"]
            run_cells(chosen, folder / "records", context, lambda *_: None)
    return folder / "records"
