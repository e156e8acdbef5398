"""``gar compare --models`` as a user runs it: processes, a signal, and a model of trees."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gar.app.models import load_model
from gar.app.models.trees import TreeModel
from tests.app.compare.example import diabetes
from tests.app.test_cli import PATIENCE, environment, gar

TREES = ("-t", "target", "--drop", "double,clinic", "--losses", "mse,gar,rnc", "--parameters", "gar=1", "--folds", "2")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_interrupted_it_goes_on_and_the_winner_may_be_trees(tmp_path: Path) -> None:
    diabetes().to_csv(tmp_path / "diabetes.csv", index=False)
    arguments = ("compare", "diabetes.csv", *TREES, "--models", "lightgbm", "--workers", "2")
    process = subprocess.Popen(
        [sys.executable, "-m", "gar", *arguments],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + PATIENCE
    while not (done := sorted((tmp_path / "gar-report").glob("records/*/*.npz"))):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "the same command continues" in error
    assert "Traceback" not in error
    kept = {path: path.stat().st_mtime_ns for path in done}
    result = gar(*arguments, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert {path: path.stat().st_mtime_ns for path in done} == kept
    assert len(list((tmp_path / "gar-report").glob("records/*/*.npz"))) == 24 + 8
    assert "diabetes: GAR (LightGBM)" in result.stderr
    assert "RNC: for networks only, and not tried with lightgbm." in result.stdout
    _check_report(tmp_path / "gar-report")
    printed = gar("predict", "gar-report", "diabetes.csv", folder=tmp_path)
    model = load_model(tmp_path / "gar-report" / "model")
    assert isinstance(model, TreeModel)
    assert np.allclose(np.array(printed.stdout.splitlines()[1:], dtype=float), model.predict(diabetes())[:, 0], rtol=1e-9)


def _check_report(folder: Path) -> None:
    (problem,) = json.loads((folder / "results.json").read_text())["problems"]
    assert [(method["loss"], method["family"]) for method in problem["methods"]] == [("mse", "lightgbm"), ("gar", "lightgbm")]
    page = (folder / "report.html").read_text()
    shown = ("GAR (LightGBM)", "until 50 did not improve validation mae", "depth 3", "after every round")
    for text in (*shown, 'data-toggle="gar-lightgbm"'):
        assert text in page
    assert (folder / "figures" / "1-diabetes-learning-lightgbm.svg").exists()


def test_unknown_models_are_an_error(tmp_path: Path) -> None:
    diabetes().to_csv(tmp_path / "diabetes.csv", index=False)
    result = gar("compare", "diabetes.csv", "-t", "target", "--models", "catboost", folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "'catboost'" in result.stderr
    assert "choose one of 'mlp', 'xgboost', 'lightgbm'" in result.stderr
