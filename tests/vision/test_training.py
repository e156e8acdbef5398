"""Whole runs with a small network: what they write, how they resume, and how they fail."""

import csv
import errno
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from gar.errors import InputError
from gar.metrics import all_metrics
from gar.registry import METRICS
from gar.vision import ImageRegressor, ImageSettings, ImageTable, Machine, train_images, train_study
from gar.vision.training import summarise_runs
from gar.vision.views import evaluation_batches
from tests.vision.conftest import small_network

SHORT = ImageSettings(epochs=3, batch_size=14, size=16, learning_rate=0.02)
CPU = Machine(accelerator="cpu")

pytestmark = pytest.mark.usefixtures("small")


def train(table: ImageTable, folder: Path, **changes: Any) -> dict[str, Any]:
    return train_images(table, ImageSettings(**{**vars(SHORT), **changes}), folder, machine=CPU)


def weights_in(file: Path) -> dict[str, torch.Tensor]:
    return dict(torch.load(file, weights_only=True)["state_dict"])


def assert_same_weights(one: Path, other: Path) -> None:
    a, b = weights_in(one), weights_in(other)
    assert list(a) == list(b)
    assert all(torch.equal(a[name], b[name]) for name in a)


def history(folder: Path) -> list[dict[str, float]]:
    with (folder / "history.csv").open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def test_a_run_keeps_its_best_epoch_and_tests_it(table: ImageTable, tmp_path: Path) -> None:
    result = train(table, tmp_path)
    rows = history(tmp_path)
    assert [row["epoch"] for row in rows] == [0, 1, 2]
    assert [row["learning_rate"] for row in rows] == pytest.approx([0.02, 0.015, 0.005])  # a cosine from 1 to -1, in three steps
    assert result["best_epoch"] == min(rows, key=lambda row: row["val_mae"])["epoch"]
    assert result["val"] == pytest.approx({name: rows[result["best_epoch"]][f"val_{name}"] for name in METRICS})
    assert list(result["test"]) == list(METRICS)
    assert json.loads((tmp_path / "result.json").read_text()) == result
    regressor = ImageRegressor.load_from_checkpoint(tmp_path / "best.ckpt", encoder=small_network(), map_location="cpu").eval()
    (views, targets, _), *none = evaluation_batches(table, "test", size=16, batch_size=12)
    assert not none
    with torch.no_grad():
        values = all_metrics(regressor(views[:, 0]).squeeze(-1), targets)
    assert list(result["test"].values()) == pytest.approx(values.tolist(), rel=1e-4)


def test_pretraining_leaves_an_encoder(table: ImageTable, tmp_path: Path) -> None:
    result = train(table, tmp_path, loss="rnc", parameter=2.0)
    assert list(result["val"]) == ["loss"]
    assert "test" not in result
    assert all(name.startswith("encoder.") for name in weights_in(tmp_path / "last.ckpt"))


def test_a_finished_run_is_only_read(table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = train(table, tmp_path)
    monkeypatch.setattr(ImageRegressor, "batch_loss", None)
    assert train(table, tmp_path) == result
    (tmp_path / "result.json").unlink()  # killed after the last epoch: all is there but the result
    assert train(table, tmp_path) == result


def test_another_run_does_not_resume_in_its_folder(table: ImageTable, tmp_path: Path) -> None:
    train(table, tmp_path, epochs=1)
    with pytest.raises(InputError, match=r"holds a run with epochs 1, not 3; seed 0, not 5\. Choose another folder"):
        train(table, tmp_path, seed=5)
    changed = ImageTable(root=table.root, paths=table.paths, targets=table.targets + 1, splits=table.splits)
    with pytest.raises(InputError, match="holds a run with table"):
        train(changed, tmp_path, epochs=1)


def test_raw_targets_are_not_standardised(table: ImageTable, tmp_path: Path) -> None:
    train(table, tmp_path / "raw", epochs=1, standardise=False)
    train(table, tmp_path / "scaled", epochs=1)
    assert weights_in(tmp_path / "raw/last.ckpt")["head.deviation"] == 1.0
    assert weights_in(tmp_path / "scaled/last.ckpt")["head.deviation"] == pytest.approx(table.part("train")[1].std())


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str, count: int) -> None:
    """Fill the disk when a file of this name is written for the ``count``-th time."""
    original, seen = Path.open, 0

    def opened(self: Path, *arguments: Any, **more: Any) -> Any:
        nonlocal seen
        file = original(self, *arguments, **more)
        if self.name.startswith(name) and "x" in str(arguments):
            seen += 1
            if seen == count:
                file.write(b"a part")
                file.close()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.parametrize("name", ["last.ckpt", "best.ckpt", "history.csv"])
def test_a_full_disk_leaves_the_last_good_checkpoint(
    table: ImageTable, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "run"
    settings = {"loss": "mse", "learning_rate": 1e-3}  # so slow that every epoch is better than those before
    train(table, undisturbed, **settings)
    with monkeypatch.context() as patch:
        fail_at(patch, name, 2)
        with pytest.raises(OSError, match=rf"{name} could not be written \(No space left on device\)"):
            train(table, folder, **settings)
    assert not list(folder.glob("*.tmp"))
    assert torch.load(folder / "last.ckpt", weights_only=True)["epoch"] == 0
    assert train(table, folder, **settings)["test"] == train(table, undisturbed, **settings)["test"]
    assert_same_weights(folder / "last.ckpt", undisturbed / "last.ckpt")


def test_a_run_that_diverges_ends(table: ImageTable, tmp_path: Path) -> None:
    result = train(table, tmp_path, loss="mse", learning_rate=1e30, epochs=50)
    rows = history(tmp_path)
    assert len(rows) < 50
    assert not math.isfinite(rows[-1]["train_loss"])
    assert math.isnan(result["val"]["mae"]) or math.isfinite(result["val"]["mae"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 43}, "batch_size=43, but there are 42 training images"),
        ({"loss": "l1"}, "loss='l1'"),
        ({"loss": "mae", "parameter": 1.0}, "MAE has no parameter"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 is no positive number"),
        ({"weight_decay": math.nan}, "weight_decay=nan"),
        ({"epochs": 0}, "epochs=0 is too small"),
        ({"views": 0}, "views=0 is too small"),
        ({"augmentation": "none"}, "augmentation='none'"),
    ],
)
def test_wrong_settings(table: ImageTable, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        train(table, tmp_path / "run", **changes)
    assert message in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("loss", "views"), [("gar", 1), ("mae", 1), ("ranksim", 2), ("conr", 2), ("rnc", 2)])
def test_losses_of_features_get_two_views(loss: str, views: int) -> None:
    assert ImageSettings(loss=loss).views_per_image == views
    assert ImageSettings(loss=loss, views=3).views_per_image == 3


def test_wrong_machines(table: ImageTable, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be shared evenly by 3 processes"):
        train_images(table, SHORT, tmp_path / "run", machine=Machine(devices=3))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        train(table, tmp_path / "file")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="this machine cannot train as asked"):
            train_images(table, SHORT, tmp_path / "run", machine=Machine(accelerator="gpu"))


def test_a_log_gets_a_line_for_every_epoch(table: ImageTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_images(table, SHORT, tmp_path, machine=Machine(accelerator="cpu", progress=True))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1", "epoch 2"]
    assert f"val_mae {history(tmp_path)[2]['val_mae']:.4g}" in lines[2]


def test_a_study_chooses_by_validation_over_seeds(table: ImageTable, tmp_path: Path) -> None:
    runs = [
        ImageSettings(**{**vars(SHORT), "epochs": 1, "learning_rate": rate, "seed": seed})
        for rate in (1e-4, 0.1)
        for seed in (1, 2)
    ]
    called: list[bool] = []
    rows = train_study(table, runs, tmp_path, machine=CPU, callback=lambda settings, result: called.append(result is None))
    assert called == [True, False] * 4
    assert [(row["learning_rate"], row["seeds"]) for row in rows] == [(1e-4, [1, 2]), (0.1, [1, 2])]
    assert json.loads((tmp_path / "results.json").read_text()) == rows
    best = min(rows, key=lambda row: row["val"]["mae"][0])
    assert [row["chosen"] for row in rows] == [row is best for row in rows]
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in rows[0]["runs"]]
    assert rows[0]["test"]["r2"][0] == pytest.approx(sum(one["test"]["r2"] for one in results) / 2)
    shutil.rmtree(tmp_path / rows[0]["runs"][0])


def test_failed_configurations_are_not_chosen() -> None:
    settings = {"loss": "gar", "parameter": 1.0, "weight_decay": 0.0}
    values = {0.1: math.nan, 0.2: 3.0, 0.3: 2.0}
    results = [{"name": "", "settings": {**settings, "learning_rate": r, "seed": 1}, "val": {"mae": v}} for r, v in values.items()]
    assert [row["chosen"] for row in summarise_runs(results)] == [False, False, True]
