"""The commands from end to end on generated images, with the real network, and how they refuse."""

import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
import torch

from gar.app import cli
from gar.app.commands.images import images
from gar.registry import METRICS, PAPER_LOSSES
from gar.vision import read_images, resnet18, write_clocks
from gar.vision.defaults import LEARNING_RATES, SEEDS, WEIGHT_DECAYS, probe_losses
from gar_reproduction.commands.agedb import agedb

TABLE = ("clocks.csv", "--target", "minutes")
QUICK = ("--size", "32", "--batch-size", "32", "--epochs", "1", "--accelerator", "cpu", "--quiet")
PROBE = ("--size", "32", "--batch-size", "32", "--epochs", "3", "--seeds", "1,2", "--learning-rates", "0.01,0.1", "--quiet")


class Answer(NamedTuple):
    code: int
    out: str
    err: str


class Shell:
    """Runs ``gar`` in this process, which saves the time of imports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> Answer:
        self._monkeypatch.setattr(sys, "argv", ["gar", *arguments])
        self._monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert isinstance(end.value.code, int)
        return Answer(end.value.code, *self._capsys.readouterr())

    def done(self, *arguments: str) -> str:
        answer = self(*arguments)
        assert answer.code == 0, answer.err
        return answer.out

    def refused(self, *arguments: str) -> str:
        """Return the one line of the error."""
        answer = self(*arguments)
        assert (answer.code, answer.out) == (2, "")
        (line,) = answer.err.splitlines()
        assert line.startswith("Error: ")
        return line


@pytest.fixture
def gar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> Shell:
    monkeypatch.chdir(folder)
    return Shell(monkeypatch, capsys)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Write images into a folder that is deleted afterwards: a network with its momenta takes 90 MB."""
    folder = tmp_path_factory.mktemp("commands")
    write_clocks(folder, count=60, size=32)
    shutil.copytree(folder / "images", folder / "data/agedb/images")
    text = (folder / "clocks.csv").read_text()
    (folder / "data/agedb/agedb.csv").write_text(text.replace("minutes,", "age,", 1))
    yield folder
    shutil.rmtree(folder)


def test_train_compares_losses(gar: Shell) -> None:
    command = ("images", "train", *TABLE, *QUICK, "--augmentation", "light", "--loss", "mae,gar", "--alpha", "0.5", "--out", "runs")
    out = gar.done(*command)
    rows = json.loads(Path("runs/results.json").read_text())
    assert [(row["loss"], row["parameter"], row["chosen"], row["standardise"]) for row in rows] == [
        ("mae", None, True, True),
        ("gar", 0.5, True, True),
    ]
    for row in rows:
        assert list(row["test"]) == list(METRICS)
        assert (row["views"], row["augmentation"]) == (None, "light")
        assert f"{row['test']['rmse'][0]:.4g}" in out
    written = Path("runs/gar-alpha0.5-lr0.02-decay0.0001-seed1/best.ckpt").stat().st_mtime_ns
    assert gar.done(*command) == out
    assert Path("runs/gar-alpha0.5-lr0.02-decay0.0001-seed1/best.ckpt").stat().st_mtime_ns == written


def test_pretrain_and_probe(gar: Shell) -> None:
    """Features are computed once, and belong to the weights and the images."""
    gar.done("images", "pretrain", *TABLE, *QUICK, "--out", "encoder")
    (run,) = Path("encoder").glob("rnc-temperature2-*")
    out = gar.done("images", "probe", *TABLE, str(run), *PROBE, "--alpha", "0.5,2")
    (features,) = run.glob("features-*.safetensors")
    computed = features.stat().st_mtime_ns
    rows = json.loads((run / "probe.json").read_text())
    assert [(row["loss"], row["parameter"] in (None, 0.5, 2.0)) for row in rows] == [("mae", True), ("gar", True)]
    assert f"{rows[1]['test']['rmse'][0]:.4g}" in out
    gar.done("images", "probe", *TABLE, str(run / "last.ckpt"), *PROBE, "--loss", "mse")
    assert features.stat().st_mtime_ns == computed
    gar.done("images", "probe", *TABLE, str(run / "best.ckpt"), *PROBE, "--loss", "mse", "--size", "24")
    assert len(list(run.glob("features-*.safetensors"))) == 2


def test_agedb_is_the_papers_protocol(gar: Shell) -> None:
    gar.done("agedb", "scratch", "--data-dir", "data", *QUICK, "--seeds", "1", "--out", "agedb")
    settings = json.loads(Path("agedb/gar-alpha0.1-lr0.2-decay0.0001-seed1/settings.json").read_text())
    assert not settings["standardise"]
    assert (settings["views"], settings["augmentation"]) == (2, "paper")
    torch.save(resnet18().state_dict(), "weights.pt")
    gar.done("agedb", "probe", "--data-dir", "data", "weights.pt", *PROBE, "--loss", "gar", "--out", "probe")
    assert Path("probe/probe.json").exists()
    for option in ("--epochs", "--batch-size", "--seeds", "--learning-rates"):
        assert option in gar.done("agedb", "scratch", "--help")


def test_the_papers_grid(gar: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def study(table: object, runs: list[object], *rest: object, **more: object) -> None:
        asked.append(len(runs))
        raise KeyboardInterrupt

    monkeypatch.setattr("gar.vision.training.train_study", study)
    monkeypatch.setattr("gar.app.cli._exit_at_once", lambda: sys.exit(130))
    answer = gar("agedb", "scratch", "--data-dir", "data", "--grid")
    assert (answer.code, asked) == (130, [6 * 4 * 5])
    assert "the same command resumes from there" in answer.err


def test_the_list_of_agedb(data_home: Path) -> None:
    """The real list, whose images only their owners can give."""
    file = data_home / "agedb/agedb.csv"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    table = read_images(file, target="age")
    assert [len(table.part(split)[0]) for split in ("train", "val", "test")] == [12208, 2140, 2140]
    assert (table.targets.min(), table.targets.max()) == (1, 101)


def test_errors_of_a_user_are_one_line(gar: Shell, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    shutil.copy("clocks.csv", tmp_path)
    assert "60 of 60 images cannot be used" in gar.refused("images", "train", str(tmp_path / "clocks.csv"), *TABLE[1:])
    assert "has no column 'age'" in gar.refused("images", "train", "clocks.csv", "--target", "age")
    assert "is not there" in gar.refused("images", "train", "none.csv", "--target", "age")
    assert "AgeDB is not in" in gar.refused("agedb", "scratch", "--data-dir", str(tmp_path))
    assert "loss='huge'" in gar.refused("images", "train", *TABLE, "--loss", "huge")
    assert "there are 42 training images" in gar.refused("images", "train", *TABLE, "--batch-size", "64")
    (tmp_path / "text.pt").write_text("no weights")
    assert "cannot be read as a checkpoint" in gar.refused("images", "probe", *TABLE, str(tmp_path / "text.pt"))
    assert "is not a file" in gar.refused("images", "probe", *TABLE, str(tmp_path))


def test_options_that_do_not_go_together(gar: Shell) -> None:
    for options, message in {
        ("--loss", "mae", "--alpha", "1"): "There are parameters for gar, but --loss is mae.",
        ("--loss", "gar,rnc"): "use the command pretrain",
    }.items():
        answer = gar("images", "train", *TABLE, *options)
        assert answer.code == 2
        assert message in answer.err


def test_defaults_of_probes_are_the_papers() -> None:
    """The commands do not import the probe, which imports torch."""
    for group, arguments in ((images, ["TABLE", "CHECKPOINT", "--target", "age"]), (agedb, ["CHECKPOINT"])):
        defaults = group.commands["probe"].make_context("probe", arguments).params
        assert (defaults["learning_rates"], defaults["weight_decays"]) == (LEARNING_RATES, WEIGHT_DECAYS)
        assert defaults["seeds"] == SEEDS
    assert defaults["losses"] == tuple(name for name in PAPER_LOSSES if name in probe_losses())


def test_tables_of_other_formats(gar: Shell, tmp_path: Path) -> None:
    """They are read as ``gar compare`` reads tables; errors name the file, and paths start from its folder."""
    frame = pd.read_csv("clocks.csv")
    frame.to_parquet("clocks.parquet")
    frame.to_csv("clocks.tsv", sep="\t", index=False)
    for name in ("clocks.parquet", "clocks.tsv"):
        options = ("--target", "minutes", "--batch-size", "64")
        assert "there are 42 training images" in gar.refused("images", "train", name, *options)
        assert f"{name} has no column 'age'" in gar.refused("images", "train", name, "--target", "age")
