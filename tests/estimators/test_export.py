"""Estimators as ONNX files, run by another program."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gar import GARRegressor, GARRegressorCV, InputError
from gar.boosting import GARBoostRegressor
from gar.estimators import export_onnx

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.mark.parametrize(
    "model",
    [
        GARRegressor(epochs=3, activation="elu", random_state=0),
        GARRegressor(epochs=3, encoding="periodic", random_state=0),
        GARRegressor(epochs=3, encoding="piecewise", random_state=0),
        GARRegressorCV(epochs=3, cv=2, encoding="periodic", random_state=0),
        GARRegressorCV(preset="paper", cv=2, random_state=0),
    ],
    ids=["elu", "periodic", "piecewise", "folds", "paper"],
)
@pytest.mark.parametrize("targets", [1, 2])
def test_predictions_agree(model: Any, targets: int, tmp_path: Path) -> None:
    """Also for features and labels far from zero, which single precision alone would blur."""
    generator = np.random.default_rng(0)
    x = 1e5 + generator.normal(size=(80, 3))
    y = 1e6 + (x - 1e5) @ generator.normal(size=(3, targets))
    model.fit(x, y)
    export_onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (mine,) = session.run(None, {"X": x})
    assert mine.shape == (80, targets)
    np.testing.assert_allclose(mine, model.predict(x), rtol=0, atol=1e-4 * y.std())


def test_missing_numbers_are_filled_and_columns_left_out(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(80, 4))
    y = x.sum(1)
    x[::5, 1], x[:, 2] = np.nan, 7.0
    model = GARRegressorCV(epochs=3, cv=2, random_state=0).fit(x, y)
    export_onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    x[3, 0] = np.nan  # a gap in a column that had none
    (mine,) = session.run(None, {"X": x})
    np.testing.assert_allclose(mine[:, 0], model.predict(x), rtol=0, atol=1e-4)


def test_text_cannot_be_exported(tmp_path: Path) -> None:
    frame = pd.DataFrame({"colour": ["red", "blue"] * 10, "size": range(20)})
    model = GARRegressor(epochs=1).fit(frame, np.arange(20.0))
    with pytest.raises(InputError, match="columns 'colour' hold categories or dates"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFittedError):
        export_onnx(GARRegressor(), tmp_path / "model.onnx")
    model = GARRegressor(epochs=1).fit(np.arange(20.0).reshape(10, 2), np.arange(10.0))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match="install the extra 'onnx'"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a link, too; and if the disk is full, the old one is still there."""
    model = GARRegressor(epochs=1).fit(np.arange(20.0).reshape(10, 2), np.arange(10.0))
    (tmp_path / "link.onnx").symlink_to(tmp_path / "model.onnx")
    export_onnx(model, tmp_path / "link.onnx")
    content = (tmp_path / "model.onnx").read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*model.onnx'"):
        export_onnx(model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.onnx", "model.onnx"]


@pytest.mark.parametrize("model", [make_pipeline(StandardScaler(), GARRegressor()), GARBoostRegressor(), "model"])
def test_other_models_cannot_be_exported(model: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"{type(model).__name__} cannot be written as ONNX; .*pipeline\[-1\].*booster"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
