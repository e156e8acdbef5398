"""Records of experiment cells: small, the same on every run, and never trusted when they are damaged or of something else."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gar.registry import METRICS
from gar.search import RecordWarning, RunContext, search, select
from gar.search.selection import best_configuration
from gar.stack import Models
from gar_reproduction.cell import Cell
from gar_reproduction.execution import run_cell, run_cells
from gar_reproduction.experiments import cells
from gar_reproduction.scores import result, winners
from gar_reproduction.summary import path_of, read_summaries, read_summary
from tests.reproduction.conftest import in_small


def small_cell(experiment: str = "table1", task: str = "concrete", variant: str = "gar") -> Cell:
    (cell,) = cells(experiment, tasks=[task], methods=[variant])
    return in_small(cell)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "records"


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return RunContext(records=tmp_path / "scratch")


@pytest.mark.parametrize(
    ("experiment", "task", "variant"),
    [("table1", "concrete", "mae"), ("batch-size", "concrete", "64"), ("synthetic", "sine", "rnc"), ("ablation", "wine", "diff")],
)
def test_a_deleted_record_comes_back_byte_for_byte(
    experiment: str, task: str, variant: str, records: Path, context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GAR_DATA_HOME", raising=False)
    cell = small_cell(experiment, task, variant)
    assert run_cell(cell, records, context)[0] == "computed"
    path = path_of(records, cell)
    content = path.read_bytes()
    assert run_cell(cell, records, context)[0] == "found"
    path.unlink()
    assert run_cell(cell, records, replace(context, records=tmp_path / "another"))[0] == "computed"
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_record_is_named_and_made_again(damage: bytes | None, records: Path, context: RunContext) -> None:
    cell = small_cell()
    run_cell(cell, records, context)
    path = path_of(records, cell)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :] if damage is None else damage)
    with pytest.warns(RecordWarning, match=f"{path.name} is damaged"):
        state, _ = run_cell(cell, records, context)
    assert state == "computed"
    assert path.read_bytes() == content


def test_a_record_of_other_settings_is_stale(records: Path, context: RunContext) -> None:
    cell = small_cell()
    run_cell(cell, records, context)
    other = replace(cell, settings=replace(cell.settings, epochs=1, milestones=()))
    assert read_summaries(records, [other]) == {}
    with pytest.warns(RecordWarning, match="is stale"):
        assert run_cell(other, records, context)[0] == "computed"
    with pytest.warns(RecordWarning, match="is stale"):
        assert read_summary(records, cell, key="of other data") is None


def test_time_that_is_up_stops_between_cells_and_continues_later(records: Path, context: RunContext) -> None:
    found = [small_cell(variant=name) for name in ("mae", "gar")]
    reported: list[tuple[str, str]] = []
    late = replace(context, deadline=time.monotonic())
    assert not run_cells(found, records, late, lambda cell, state: reported.append((cell.variant, state)))
    assert reported == [("mae", "unfinished")]
    assert not list(records.rglob("*.npz"))
    assert run_cells(found, records, context, lambda cell, state: reported.append((cell.variant, state)))
    assert reported[1:] == [("mae", "computed"), ("gar", "computed")]


@pytest.mark.parametrize("metric", list(METRICS))
def test_selection_from_a_summary_is_that_from_the_whole_history(metric: str, records: Path, context: RunContext) -> None:
    cell = small_cell()
    _, summary = run_cell(cell, records, context)
    assert summary is not None
    whole = select(search(cell.load(), cell.models, cell.settings), cell.models, metric)
    short = winners(summary, metric)
    assert np.array_equal(short.model, whole.model)
    assert np.array_equal(summary.epoch[short.model, METRICS[metric].index], whole.epoch)
    for split in ("valid", "test"):
        assert np.array_equal(short.of(split, metric), whole.of(split, metric))
    assert result(summary, metric).mean == whole.mean("test", metric)
    assert result(summary, metric).sd == whole.std("test", metric)


def test_models_that_diverge_are_recorded_and_never_win(records: Path, context: RunContext) -> None:
    cell = small_cell(variant="mse")
    rates = np.where(np.arange(len(cell.models)) % 3 == 0, 1e6, 1e-3)
    models = Models(fold=cell.models.fold, seed=cell.models.seed, learning_rate=rates, weight_decay=cell.models.weight_decay)
    _, summary = run_cell(replace(cell, models=models), records, context)
    assert summary is not None
    failed = summary.failed_epoch >= 0
    assert failed.any()
    assert not failed[winners(summary, "mae").model].any()
    first = summary.failed_epoch == 0
    assert (summary.epoch[first] == -1).all()
    assert np.isnan(summary.valid[first]).all()


def test_the_combination_of_a_curve_is_best_on_average(records: Path, context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAR_DATA_HOME", raising=False)
    cell = small_cell("synthetic", "sine", "mae")
    models = Models.grid(seeds=(1, 2), learning_rates=(1e-2, 1e-3), weight_decays=(0.0,))
    _, summary = run_cell(replace(cell, models=models), records, context)
    assert summary is not None
    errors = summary.extras["last"][:, METRICS["mae"].index]
    means = {rate: errors[models.learning_rate == rate].mean() for rate in (1e-2, 1e-3)}
    best = min(means, key=lambda rate: means[rate])
    assert summary.extras["winners"].tolist() == np.flatnonzero(models.learning_rate == best).tolist()
    assert summary.extras["predictions"].shape == (2, len(summary.extras["x"]))


def test_a_combination_that_fails_with_one_seed_does_not_win() -> None:
    models = Models.grid(seeds=(1, 2), learning_rates=(0.1, 0.01), weight_decays=(0.0,))
    assert best_configuration(models, np.array([1.0, 4.0, 7.0, 3.0])).tolist() == [1, 3]  # means over seeds: 4 and 3.5
    assert best_configuration(models, np.array([1.0, np.nan, 7.0, 3.0])).tolist() == [0, 2]
    assert best_configuration(models, np.full(4, np.nan)).tolist() == []


def test_loading_is_not_disturbed_by_what_is_kept(records: Path, context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAR_DATA_HOME", raising=False)
    cell = small_cell("synthetic", "sine", "mae")
    before = cell.load().x.clone()
    run_cell(cell, records, context)
    assert not cell.load().x.requires_grad
    assert cell.load().x.equal(before)
