"""The command, from its help to its pages, and timings."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gar.errors import InputError
from gar_reproduction import folders, timing
from gar_reproduction.cell import estimated_seconds
from gar_reproduction.commands.reproduce import reproduce
from gar_reproduction.experiments import cells
from gar_reproduction.names import EXPERIMENTS
from gar_reproduction.protocol import table_settings
from tests.reproduction.conftest import small_table


def call(*arguments: str) -> Result:
    return CliRunner().invoke(reproduce, arguments, catch_exceptions=False)


def test_help_names_every_experiment() -> None:
    text = call("--help").output
    for name in [*EXPERIMENTS, "all", "list", "report"]:
        assert f"\n  {name} " in text


def test_from_nothing_to_pages(small: None, tmp_path: Path) -> None:
    records, out = tmp_path / "records", tmp_path / "out"
    where = ["--records", str(records), "--scratch", str(tmp_path / "scratch"), "--workers", "1", "--quiet"]
    some = ["table1", "--tasks", "concrete", "--methods", "gar,mae", *where]
    plan = call(*some, "--dry-run").output
    assert plan.count("to do") == 2
    assert "To do: about 0 minutes with 1 workers" in plan
    assert not records.exists()
    output = call(*some).output
    assert output.count("computed") == 2
    assert "4.603(0.075)" in next(line for line in output.splitlines() if line.startswith("GAR "))
    assert call(*some).output.count("found") == 2
    assert call(*some, "--dry-run").output.count("done") == 2
    assert "table1               2 of 18 " in call("list", "--records", str(records)).output
    assert "index.md" in call("report", "--records", str(records), "--out", str(out)).output
    assert "2 of 18 experiment cells were run." in (out / "table1.md").read_text()


def test_a_budget_that_is_spent_is_said(small: None, tmp_path: Path) -> None:
    where = ["--records", str(tmp_path / "records"), "--scratch", str(tmp_path / "scratch"), "--workers", "1", "--quiet"]
    output = call("alpha", "--tasks", "concrete", "--budget", "0.0000001", *where).output
    assert "unfinished" in output
    assert "the same command continues from there" in output


def test_all_skips_what_an_experiment_does_not_have(small: None, tmp_path: Path) -> None:
    output = call("all", "--tasks", "sine", "--methods", "mae", "--records", str(tmp_path), "--dry-run", "--workers", "1").output
    assert "synthetic/sine/mae" in output
    assert "table1/" not in output


def test_wrong_names_and_folders_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'iris' is no task of table1"):
        call("table1", "--tasks", "iris", "--records", str(tmp_path))
    with pytest.raises(InputError, match="'gdsb' is no task of runtime"):
        call("runtime", "--tasks", "gdsb", "--records", str(tmp_path))
    assert "run an experiment first" in call("report", "--records", str(tmp_path / "nowhere")).output


@pytest.mark.parametrize("method", ["mae", "gar", "rnc", "conr"])
def test_timings_are_measured_recorded_and_kept(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "table_data", lambda *_, **__: small_table())
    monkeypatch.setattr(timing, "table_settings", lambda *given, **more: table_settings(*given, batch_size=8, **more))
    (study,) = timing.timings(["concrete"], [method], epochs=6)
    record = study.run(tmp_path)
    assert record["epochs"] == 6
    assert 0 < record["loss"]["median"] < record["all"]["median"]
    assert record["stack"] > 0
    assert record["machine"]["cores"] >= 1
    path = study.path(tmp_path)
    assert json.loads(path.read_text()) == record
    assert study.run(tmp_path) == record  # not measured again
    path.write_text("{")
    assert study.read(tmp_path) is None


def test_agedb_needs_its_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAR_DATA_HOME", str(tmp_path))
    records = ("--records", str(tmp_path / "records"))
    assert "agedb/agedb-probe/gar" in call("agedb", "--dry-run", *records).output
    assert "skipped" in call("all", "--tasks", "agedb-probe", *records).output
    with pytest.raises(InputError, match=r"agedb\.csv"):
        call("agedb", "--methods", "gar", *records)


def test_estimates_grow_with_the_work(small: None) -> None:
    (cell,) = cells("table1", tasks=["concrete"], methods=["gar"])
    data = cell.load()
    assert estimated_seconds(cell, data, workers=1) == pytest.approx(2 * estimated_seconds(cell, data, workers=2))
    assert estimated_seconds(cell, data, workers=1) > 0


def test_records_of_a_clone_are_found_and_elsewhere_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (folders.records_folder() / "table1" / "concrete" / "gar.npz").is_file()
    monkeypatch.chdir(tmp_path)
    listed = call("list").output
    assert "table1              63 of 63 " in listed
    assert listed.endswith(f"Records: {folders.records_folder()}\n")
    monkeypatch.setattr(folders, "_CLONE", tmp_path)
    listed = call("list").output
    assert "table1               ? of 63 " in listed
    assert "folder reproduction/records of a clone: say where it is by --records FOLDER" in listed
    with pytest.raises(InputError, match="say where it is by --records FOLDER"):
        call("report")
    assert "reproduction/records of the clone" in call("list", "--help").output
