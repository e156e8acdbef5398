"""A model on disk predicts as it did before, and nothing else passes for one."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load

from benchmarks.fuzz.crafting import crafted
from gar import GARRegressorCV, __version__
from gar.app.compare import compare_table, source_of_frame
from gar.app.compare.networks import fold_members
from gar.app.models import TableModel, load_model
from gar.app.models.file import UNSIGNED, description_text, to_bytes
from gar.errors import InputError
from gar.search.context import ALONE
from tests.app.compare.example import QUICK, compared, diabetes
from tests.estimators.test_tables import mixed


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
    assert sorted(path.name for path in saved.iterdir()) == ["model.safetensors"]


def test_encoders_of_all_kinds_are_saved(tmp_path: Path) -> None:
    frame, price = mixed()
    source = source_of_frame(frame.assign(price=price), targets=["price"])
    found = compare_table(source, replace(QUICK, losses=("mae",), epochs=2), ALONE).model
    assert found is not None
    assert {column.kind for column in found.encoders[0].columns} == {"number", "date", "category", "target"}
    found.save(tmp_path)
    assert np.array_equal(load_model(tmp_path).predict(frame), found.predict(frame))


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


def change(folder: Path, *keys: str | int, value: object) -> None:
    """Change one value of the description, with a right checksum."""

    def edited(text: str) -> str:
        about = part = json.loads(text)
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value
        return json.dumps(about, separators=(",", ":"))

    file = folder / "model.safetensors"
    file.write_bytes(crafted(file.read_bytes(), description=edited))


@pytest.mark.parametrize("part", ["length", "description", "checksum", "weights"])
def test_a_single_changed_bit_is_noticed(saved: Path, part: str) -> None:
    file = saved / "model.safetensors"
    content = file.read_bytes()
    start = {"length": 0, "description": 8, "checksum": content.index(b"sha256"), "weights": len(content) - 40}[part]
    for bit in range(8 * start, 8 * start + 320 if part != "length" else 64):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with pytest.raises(InputError, match="damaged"):
            load_model(saved)


def test_an_edited_description_is_noticed(saved: Path) -> None:
    """Without the right checksum even an edit that makes sense is none of gar's."""
    file = saved / "model.safetensors"
    content = file.read_bytes()
    assert b"woman" in content
    file.write_bytes(content.replace(b"woman", b"Woman"))
    with pytest.raises(InputError, match=r"cannot be read \(ValueError: the checksum is wrong\); it is damaged"):
        load_model(saved)


@pytest.mark.parametrize(
    ("found", "remedy"),
    [(99, "update gar"), (6, "update gar"), (4, "save it anew with 'gar compare'"), ("new", "save it anew with 'gar compare'")],
)
def test_another_format_says_what_to_do(saved: Path, found: object, remedy: str) -> None:
    change(saved, "format", value=found)
    with pytest.raises(InputError, match=f"has format {found!r}, and gar {re.escape(__version__)} reads format 5; {remedy}"):
        load_model(saved)


def test_a_model_of_an_earlier_version_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"format": 2}')
    with pytest.raises(InputError, match=r"has an earlier format, and .*; save it anew with 'gar compare'"):
        load_model(tmp_path)


NETWORK = ("members", 0, 0, "network")
"""Where the architecture of the first networks is described."""
NUMBERS, WORDS = 0, 1
"""Columns of the example: age, and sex."""


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("spell",), 1, "spell Extra inputs are not permitted"),
        (("gar",), 1, "should be a valid string"),
        (("about",), [], "about"),
        (("targets",), ["one"], "layers of .* 1 targets"),
        (("targets",), [], "are missing"),
        (("targets", 0), 7, "should be a valid string"),
        ((*NETWORK,), {"sizes": [12, 16, 8, 1]}, "layers of"),
        ((*NETWORK,), {"sizes": [12]}, "layers of"),
        ((*NETWORK,), {"sizes": []}, "layers of"),
        ((*NETWORK, "sizes", 1), 64, "shapes"),
        ((*NETWORK, "sizes", 1), -16, "layers of"),
        ((*NETWORK, "sizes", 1), 10**30, "shapes"),
        ((*NETWORK, "sizes", 1), 1e999, "sizes"),
        ((*NETWORK, "sizes"), "big", "sizes"),
        ((*NETWORK, "activation"), "magic", "'elu' or 'silu'"),
        ((*NETWORK, "spell"), "magic", "spell"),
        (("members",), [], "networks of 0 folds for 5 encoders"),
        (("members", 0), [], "networks of 5 folds for 5 encoders"),
        (("encoders",), [], "are missing"),
        (("encoders", 0), {}, "columns Field required"),
        (("encoders", 0, "columns"), [], "expected one or more of different names"),
        (("encoders", 0, "columns", NUMBERS, "fill"), "2", "should be a valid number"),
        (("encoders", 0, "columns", NUMBERS, "fill"), 1e999, "should be a finite number"),
        (("encoders", 0, "columns", NUMBERS, "marked"), "no", "should be a valid boolean"),
        (("encoders", 0, "columns", NUMBERS, "name"), "bmi", "different names"),
        (("encoders", 0, "columns", NUMBERS, "kind"), "spell", "kind"),
        (("encoders", 0, "columns", WORDS, "known"), ["man", "man"], "has a category twice"),
        (("encoders", 0, "columns", WORDS, "known"), [1, 2], "should be a valid string"),
        (("encoders", 0, "columns", WORDS, "known"), ["man"], "encoders of the same features"),
        (("encoders", 0, "columns", WORDS, "missing"), "no", "should be a valid boolean"),
    ],
)
def test_foreign_descriptions_are_refused(saved: Path, keys: tuple[str | int, ...], value: object, message: str) -> None:
    change(saved, *keys, value=value)
    with pytest.raises(InputError, match=message) as raised:
        load_model(saved)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff" * 99, b"\x02" + bytes(7) + b"{}", (9999).to_bytes(8, "little") + b"[" * 9999]
)
def test_what_is_no_model_is_refused(saved: Path, content: bytes) -> None:
    (saved / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="it is damaged or not one of gar's"):
        load_model(saved)


@pytest.mark.parametrize("change_of", ["shape", "value", "type", "name"])
def test_other_weights_are_refused(saved: Path, change_of: str) -> None:
    content = (saved / "model.safetensors").read_bytes()
    tensors = load(content)
    weights = tensors.pop("0.0.networks")
    tensors["0.0.spell" if change_of == "name" else "0.0.networks"] = {
        "shape": weights[:, :-16].contiguous(),
        "value": weights.clone().fill_(torch.nan),
        "type": weights.int(),
        "name": weights,
    }[change_of]
    text = description_text(content)
    checksum = json.loads(text)["sha256"]
    (saved / "model.safetensors").write_bytes(to_bytes(text.replace(checksum, UNSIGNED), tensors))
    with pytest.raises(InputError, match=r"shapes|not finite numbers|KeyError"):
        load_model(saved)


@pytest.fixture(scope="module", params=["periodic", "piecewise"])
def expanded(request: pytest.FixtureRequest) -> TableModel:
    frame = diabetes()[["age", "bp"]]
    model = GARRegressorCV(encoding=request.param, epochs=1, cv=2, random_state=0).fit(frame, diabetes()["target"])
    members = fold_members(model)
    return TableModel(members=members, encoders=[own[0].encoder for own in members], targets=["target"])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("columns", torch.tensor([99]), "none of 2 features"),
        ("columns", torch.tensor([-1]), "none of 2 features"),
        ("slopes", torch.zeros(0, 3), "expanded features without columns"),
        ("offsets", torch.zeros(1, 1), "shapes"),
        ("labels.low", torch.full((1,), torch.inf), "not finite numbers"),
    ],
)
def test_other_expanded_features_are_refused(
    expanded: TableModel, tmp_path: Path, name: str, value: torch.Tensor, message: str
) -> None:
    saved = tmp_path / "model"
    expanded.save(saved)
    assert np.array_equal(load_model(saved).predict(diabetes()), expanded.predict(diabetes()))
    content = (saved / "model.safetensors").read_bytes()
    tensors, text = load(content), description_text(content)
    (key,) = [one for one in tensors if one.endswith(f".{name}")][:1]
    whole = tensors[key]
    tensors[key] = value.expand_as(whole).to(whole.dtype).contiguous() if name == "columns" else value
    checksum = json.loads(text)["sha256"]
    (saved / "model.safetensors").write_bytes(to_bytes(text.replace(checksum, UNSIGNED), tensors))
    with pytest.raises(InputError, match=message):
        load_model(saved)


def test_writers_and_readers_at_once_find_whole_models(model: TableModel, tmp_path: Path) -> None:
    """Two threads save two models to one folder again and again, while a third one loads."""
    others = [replace(model, targets=names) for names in (["a", "b"], ["c", "d"])]
    others[0].save(tmp_path)

    def save(one: TableModel) -> None:
        for _ in range(30):
            one.save(tmp_path)

    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(save, one) for one in others]
        found = {tuple(load_model(tmp_path).targets)}
        while not all(writer.done() for writer in writers):
            found.add(tuple(load_model(tmp_path).targets))
        for writer in writers:
            writer.result()
    assert found <= {("a", "b"), ("c", "d")}
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_folder_without_a_model_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give the folder that 'gar compare' saved a model in"):
        load_model(tmp_path)
