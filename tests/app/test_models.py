"""A model on disk predicts as it did before, and nothing else passes for one."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from gar.app.models import TableModel, load_model
from gar.errors import InputError
from tests.app.compare.example import QUICK, compared, diabetes


@pytest.fixture(scope="module")
def model() -> TableModel:
    found = compared(QUICK, targets=["target,double"], drop=["clinic"]).model
    assert isinstance(found, TableModel)
    return found


@pytest.fixture
def saved(model: TableModel, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def test_saved_and_loaded_it_predicts_the_same(model: TableModel, saved: Path) -> None:
    assert np.array_equal(load_model(saved).predict(diabetes()), model.predict(diabetes()))
    assert sorted(path.name for path in saved.iterdir()) == ["model.json", "weights.safetensors"]


def test_a_row_alone_gets_the_prediction_it_has_among_others(model: TableModel) -> None:
    assert np.allclose(model.predict(diabetes().iloc[3:4]), model.predict(diabetes())[3:4], rtol=1e-12)


def test_predictions_are_those_of_other_units_too(model: TableModel) -> None:
    """They are in the units of the labels: about as large, and related to them."""
    predicted = model.predict(diabetes())
    assert np.corrcoef(predicted[:, 0], diabetes()["target"])[0, 1] > 0.4
    assert abs(predicted[:, 0].mean() - diabetes()["target"].mean()) < 20


def test_a_missing_column_is_named(model: TableModel) -> None:
    with pytest.raises(InputError, match="'bmi'"):
        model.predict(diabetes().drop(columns="bmi"))


def test_new_categories_and_missing_values_are_predicted(model: TableModel) -> None:
    rows = pd.DataFrame(diabetes().iloc[:3]).assign(sex=["child", None, "man"], bmi=np.nan)
    assert np.isfinite(model.predict(rows)).all()


def change(path: Path, **entries: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def test_a_single_changed_byte_is_noticed(saved: Path) -> None:
    weights = saved / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        load_model(saved)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format": 99}, "format 99"),
        ({"format": 1}, "has format 1, this version of gar reads 2; save it anew"),
        ({"network": {"sizes": [12, 16, 8, 1]}}, "2 targets for 1 outputs"),
        ({"network": {"sizes": [12, 64, 8, 2]}}, "networks has shape"),
        ({"network": {"sizes": "big"}}, "cannot be read"),
        ({"network": {"sizes": [12, 16, 8, 2], "activation": "magic"}}, "'magic'"),
        ({"network": {"sizes": [12, 16, 8, 2], "spell": "magic"}}, "spell"),
        ({"targets": ["one"]}, "1 targets for 2 outputs"),
        ({"encoders": []}, "0 encoders"),
        ({"encoders": [{"format": 1}]}, "cannot be read|no encoder"),
        ({"networks": 0}, "0 networks"),
        ({"scaled": 3}, "cannot be read"),
    ],
)
def test_foreign_descriptions_are_refused(saved: Path, entries: dict[str, object], message: str) -> None:
    change(saved / "model.json", **entries)
    with pytest.raises(InputError, match=message):
        load_model(saved)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"null", b"\xff\xfe", b'{"format": 1', b"[" * 100_000])
def test_what_is_no_description_is_refused(saved: Path, content: bytes) -> None:
    (saved / "model.json").write_bytes(content)
    with pytest.raises(InputError, match="model"):
        load_model(saved)


def test_weights_of_another_shape_are_refused(saved: Path) -> None:
    import hashlib

    tensors = load_file(saved / "weights.safetensors")
    save_file({**tensors, "networks": tensors["networks"][:, :-16].contiguous()}, saved / "weights.safetensors")
    change(saved / "model.json", weights_sha256=hashlib.sha256((saved / "weights.safetensors").read_bytes()).hexdigest())
    with pytest.raises(InputError, match="networks has shape"):
        load_model(saved)


def test_a_folder_without_a_model_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give the folder that 'gar compare' saved a model in"):
        load_model(tmp_path)
