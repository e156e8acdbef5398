"""A whole reproduction in small: the same experiments with tiny networks, few epochs and small tables, run for real."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gar.stack import StackData
from gar_reproduction import experiments
from gar_reproduction.running import Session, run_units
from gar_reproduction.unit import Unit


def is_kept(unit: Unit) -> bool:
    """One table that is run, one that is not, one for each experiment that has neither, and two depths of the sine."""
    if unit.experiment == "depth":
        return unit.variant.endswith(("-2", "-10"))
    return unit.task in ("concrete", "gdsc", "sine") or (unit.experiment, unit.task) == ("by-subject", "parkinson-total")


def small_table() -> StackData:
    """Sixty rows, five folds, one target."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 4))
    y = 20 + 5 * x[:, :1] + 3 * np.sin(2 * x[:, 1:2]) + rng.normal(size=(60, 1))
    rows = np.arange(10, 60).reshape(5, 10)
    folds = [(np.delete(rows, fold, 0).ravel(), rows[fold], np.arange(10)) for fold in range(5)]
    return StackData(x, y, folds)


def standardized_table() -> StackData:
    data = small_table()
    return StackData(data.x, data.y, data.folds, scale_labels=True)


def in_small(unit: Unit) -> Unit:
    """The same unit with little to compute."""
    models = unit.models
    kept = np.flatnonzero((models.learning_rate == 1e-2) & (models.weight_decay == 1e-4))
    settings = replace(unit.settings, hidden_sizes=(4,), epochs=2, milestones=(1,), pretrain_epochs=None)
    if unit.keeps == "curve":
        return replace(unit, models=models.take(kept), settings=settings)
    load = standardized_table if unit.experiment == "standardized" else small_table
    settings = replace(settings, batch_size=max(4, settings.batch_size // 16))
    return replace(unit, models=models.take(kept), settings=settings, load=load, origin=lambda: ("A small table.",))


@contextmanager
def small_world() -> Iterator[None]:
    """Every experiment has small units, and no data folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GAR_DATA_HOME", raising=False)
        for name, make in list(experiments._UNITS.items()):
            patch.setitem(experiments._UNITS, name, partial(list, [in_small(unit) for unit in make() if is_kept(unit)]))
        yield


@pytest.fixture
def small() -> Iterator[None]:
    with small_world():
        yield


@pytest.fixture(scope="session")
def small_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of all experiments but one task, which is not run."""
    folder = tmp_path_factory.mktemp("paper")
    session = Session(records=folder / "records", scratch=folder / "scratch", workers=1)
    with small_world():
        for name in experiments.UNIT_EXPERIMENTS:
            run_units([unit for unit in experiments.units(name) if unit.task != "gdsc"], session, lambda *_: None)
    return folder / "records"
