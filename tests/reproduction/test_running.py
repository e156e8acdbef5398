"""Records of units: small, the same on every run, and never trusted when they are damaged or of something else."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gar.metrics import METRICS
from gar.search import RecordWarning, search, select
from gar.stack import Models
from gar_reproduction.digest import path_of, read_digest
from gar_reproduction.experiments import units
from gar_reproduction.running import Session, run_unit, run_units
from gar_reproduction.scores import read_digests, result, winners
from gar_reproduction.unit import Unit
from gar_reproduction.winners import best_combination
from tests.reproduction.conftest import in_small


def small_unit(experiment: str = "table1", task: str = "concrete", variant: str = "gar") -> Unit:
    (unit,) = units(experiment, tasks=[task], methods=[variant])
    return in_small(unit)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(records=tmp_path / "records", scratch=tmp_path / "scratch", workers=1)


@pytest.mark.parametrize(
    ("experiment", "task", "variant"),
    [("table1", "concrete", "mae"), ("batch-size", "concrete", "64"), ("synthetic", "sine", "rnc"), ("ablation", "wine", "diff")],
)
def test_a_deleted_record_comes_back_byte_for_byte(
    experiment: str, task: str, variant: str, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GAR_DATA_HOME", raising=False)
    unit = small_unit(experiment, task, variant)
    assert run_unit(unit, session)[0] == "computed"
    path = path_of(session.records, unit)
    content = path.read_bytes()
    assert run_unit(unit, session)[0] == "found"
    path.unlink()
    assert run_unit(unit, replace(session, scratch=tmp_path / "another"))[0] == "computed"
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_record_is_named_and_made_again(damage: bytes | None, session: Session) -> None:
    unit = small_unit()
    run_unit(unit, session)
    path = path_of(session.records, unit)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :] if damage is None else damage)
    with pytest.warns(RecordWarning, match=f"{path.name} is damaged"):
        state, _ = run_unit(unit, session)
    assert state == "computed"
    assert path.read_bytes() == content


def test_a_record_of_other_settings_is_stale(session: Session) -> None:
    unit = small_unit()
    run_unit(unit, session)
    other = replace(unit, settings=replace(unit.settings, epochs=1, milestones=()))
    assert read_digests(session.records, [other]) == {}
    with pytest.warns(RecordWarning, match="is stale"):
        assert run_unit(other, session)[0] == "computed"
    with pytest.warns(RecordWarning, match="is stale"):
        assert read_digest(session.records, unit, key="of other data") is None


def test_time_that_is_up_stops_between_units_and_goes_on_later(session: Session) -> None:
    found = [small_unit(variant=name) for name in ("mae", "gar")]
    told: list[tuple[str, str]] = []
    late = replace(session, deadline=time.monotonic())
    assert not run_units(found, late, lambda unit, state: told.append((unit.variant, state)))
    assert told == [("mae", "unfinished")]
    assert not list(session.records.rglob("*.npz"))
    assert run_units(found, session, lambda unit, state: told.append((unit.variant, state)))
    assert told[1:] == [("mae", "computed"), ("gar", "computed")]


@pytest.mark.parametrize("metric", METRICS)
def test_selection_from_a_digest_is_that_from_the_whole_history(metric: str, session: Session) -> None:
    unit = small_unit()
    _, digest = run_unit(unit, session)
    assert digest is not None
    whole = select(search(unit.load(), unit.models, unit.settings), unit.models, metric)
    short = winners(digest, metric)
    assert np.array_equal(short.model, whole.model)
    assert np.array_equal(digest.epoch[short.model, METRICS.index(metric)], whole.epoch)
    for split in ("valid", "test"):
        assert np.array_equal(short.of(split, metric), whole.of(split, metric))
    assert result(digest, metric).mean == whole.mean("test", metric)
    assert result(digest, metric).sd == whole.std("test", metric)


def test_models_that_diverge_are_recorded_and_never_win(session: Session) -> None:
    unit = small_unit(variant="mse")
    rates = np.where(np.arange(len(unit.models)) % 3 == 0, 1e6, 1e-3)
    models = Models(fold=unit.models.fold, seed=unit.models.seed, learning_rate=rates, weight_decay=unit.models.weight_decay)
    _, digest = run_unit(replace(unit, models=models), session)
    assert digest is not None
    failed = digest.failed_epoch >= 0
    assert failed.any()
    assert not failed[winners(digest, "mae").model].any()
    first = digest.failed_epoch == 0
    assert (digest.epoch[first] == -1).all()
    assert np.isnan(digest.valid[first]).all()


def test_the_combination_of_a_curve_is_best_on_average() -> None:
    models = Models.grid(seeds=(1, 2), learning_rates=(0.1, 0.01), weight_decays=(0.0,))
    last = np.full((4, len(METRICS)), np.nan)
    last[:, METRICS.index("mae")] = [1.0, 4.0, 7.0, 3.0]  # means over seeds: 4 and 3.5
    assert best_combination(models, last).tolist() == [1, 3]
    last[1] = np.nan  # one seed of the better one did not get there
    assert best_combination(models, last).tolist() == [0, 2]
    assert best_combination(models, np.full_like(last, np.nan)).tolist() == []


def test_loading_is_not_disturbed_by_what_is_kept(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAR_DATA_HOME", raising=False)
    unit = small_unit("synthetic", "sine", "mae")
    before = unit.load().x.clone()
    run_unit(unit, session)
    assert not unit.load().x.requires_grad
    assert unit.load().x.equal(before)
