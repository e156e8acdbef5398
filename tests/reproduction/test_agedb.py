"""The paper's experiments on AgeDB, with few small images and few settings: the images of AgeDB are given by their owners only."""

from pathlib import Path

import pytest

from gar.registry import METRICS
from gar.vision import read_images, write_clocks
from gar_reproduction import agedb
from gar_reproduction.pages.blocks import markdown
from gar_reproduction.pages.pages import pages
from gar_reproduction.studies import nothing_missing
from tests.vision.conftest import small_network


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gar.vision.modules.resnet18", small_network)
    monkeypatch.setattr("gar.vision.encoder.resnet18", small_network)  # also where weights are read again
    table = read_images(write_clocks(tmp_path / "clocks", count=100, size=32), target="minutes")
    monkeypatch.setattr(agedb, "agedb_table", lambda: table)
    monkeypatch.setattr(agedb, "scratch_folder", lambda: tmp_path / "scratch")
    for name, value in {"EPOCHS": 1, "BATCH_SIZE": 16, "RATES": (0.01, 0.05), "DECAYS": (1e-4,), "SEEDS": (1, 2)}.items():
        monkeypatch.setattr(agedb, name, value)


@pytest.mark.parametrize("task", list(agedb.TASKS))
def test_images_come_to_the_paper_s_table(task: str, few: None, tmp_path: Path) -> None:
    (study,) = agedb.agedb_studies([task], ["mae"])
    assert agedb._settings("mae", None, 0.1, 0.0, 1).views == 2
    record = study._replace(missing=nothing_missing).run(tmp_path)
    (page,) = [markdown(page) for page in pages(tmp_path) if page.name == "agedb"]
    assert "1 of " in page
    for metric in METRICS:
        mean, deviation = record["test"][metric]
        assert f"{mean:.3f}({deviation:.3f})" in page
