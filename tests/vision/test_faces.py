"""The experiment on faces, with few generated images instead: what it records, and that it resumes."""

import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import faces
from gar.errors import InputError
from gar.registry import METRICS
from gar.vision import ImageTable
from tests.vision.conftest import small_network


@pytest.fixture
def few(clocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pack generated images as the archive of faces, shrink the experiment, and return its scratch folder."""
    unpacked = tmp_path / "unpacked"
    shutil.copytree(clocks.parent, unpacked)
    (unpacked / "utkface.csv").write_text(clocks.read_text().replace("minutes,", "age,", 1))
    (tmp_path / "utkface").mkdir()
    with tarfile.open(tmp_path / faces.ARCHIVE, "w:gz") as archive:
        for path in unpacked.iterdir():
            archive.add(path, path.name)
    monkeypatch.setenv("GAR_DATA_HOME", str(tmp_path))
    for module in ("modules", "encoder"):
        monkeypatch.setattr(f"gar.vision.{module}.resnet18", small_network)
    small: dict[str, Any] = {"RECORDS": tmp_path / "records", "SEEDS": (1,), "PILOT_EPOCHS": 1}
    small |= dict.fromkeys(("METHODS", "PILOT"), (("mae", None), ("gar", 1.0)))
    shared = replace(faces.SHARED, batch_size=8, size=16)
    encoder = replace(faces.ENCODER, batch_size=8, size=16)
    for name, value in {**small, "PROBED": ("mae",), "SHARED": shared, "ENCODER": encoder}.items():
        monkeypatch.setattr(faces, name, value)
    return tmp_path / "scratch"


def test_a_study_is_recorded_and_resumes(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faces.study(24, 2, few)
    runs = faces.read(faces.folder(24, 2))
    assert [(one["loss"], one["parameter"], one["seed"]) for one in runs] == [("gar", 1.0, 1), ("mae", None, 1)]
    pilot = faces.read(faces.folder(24))
    assert sorted((one["loss"], one["learning_rate"]) for one in pilot) == [
        (loss, r) for loss in ("gar", "mae") for r in faces.RATES
    ]
    for one in runs:
        errors = {trial["learning_rate"]: trial["val"]["mae"] for trial in pilot if trial["loss"] == one["loss"]}
        assert errors[one["learning_rate"]] == min(errors.values())
        assert len(one["curve"]) == 2
        assert one["val"]["mae"] == pytest.approx(min(one["curve"]), rel=1e-4)
        assert list(one["test"]) == list(METRICS)
    (probe,) = faces.read(faces.folder(24, 2), "probe-*")
    assert list(probe["test"]) == list(METRICS)
    before = {path: path.stat().st_mtime_ns for path in faces.RECORDS.rglob("*.json")}
    lost = next(path for path in before if path.name.startswith("gar"))
    content = lost.read_text()
    lost.unlink()
    monkeypatch.setattr(faces, "linear_probe", None)  # the probe has its record, so nothing calls it again
    faces.study(24, 2, few)
    assert lost.read_text() == content
    assert [path for path, time in before.items() if path.stat().st_mtime_ns != time] == [lost]


def test_images_are_always_the_same(few: Path) -> None:
    tables: list[ImageTable] = [faces.faces(few, 24), faces.faces(few, 24)]
    assert tables[0].fingerprint() == tables[1].fingerprint()
    assert [int((tables[0].splits == split).sum()) for split in ("train", "val", "test")] == [24, 6, 12]
    more = set(faces.faces(few, 30).paths)
    assert set(tables[0].paths) < more


def test_without_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAR_DATA_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"utkface72\.tar\.gz is not there; GAR_DATA_HOME must name the folder"):
        faces.faces(tmp_path / "scratch", 24)
