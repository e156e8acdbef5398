"""Records of format 1 are checked by their own rules, written in today's format with the same arrays, and left alone otherwise."""

import hashlib
import io
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gar_reproduction import folders
from gar_reproduction.cell import Cell
from gar_reproduction.experiments import cells
from gar_reproduction.summary import path_of, read_summary

SCRIPT: dict[str, Any] = runpy.run_path(str(folders.records_folder().parent / "migrate_records.py"))
migrate: Callable[[Path], list[str]] = SCRIPT["migrate"]


def as_format_1(path: Path, cell: Cell) -> dict[str, np.ndarray]:
    """Rewrite a record as format 1 had it; return its arrays."""
    with np.load(path) as file:
        arrays = dict(file)
    about = {name: value for name, value in json.loads(str(arrays["about"])).items() if name not in ("format", "cell")}
    settings = {name: getattr(cell.settings, name) for name in SCRIPT["_SETTINGS"]}
    plan = SCRIPT["_fingerprint"]((1, cell.recorded, settings, SCRIPT["_columns_then"](arrays)))
    key = SCRIPT["_fingerprint"]((plan, SCRIPT["_data_then"](cell.load())))
    arrays["about"] = np.array(json.dumps(about | {"unit": cell.name, "plan": plan, "key": key}))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    body = buffer.getvalue()
    checksum = b"sha256:" + hashlib.sha256(body).hexdigest().encode()
    path.write_bytes(body[:-2] + len(checksum).to_bytes(2, "little") + checksum)
    return arrays


@pytest.fixture
def one(small: None, small_records: Path, tmp_path: Path) -> tuple[Path, Cell]:
    """Return a folder with a single record, and its cell."""
    (cell,) = cells("batch-size", tasks=["concrete"], methods=["64"])
    path_of(tmp_path, cell).parent.mkdir(parents=True)
    path_of(tmp_path, cell).write_bytes(path_of(small_records, cell).read_bytes())
    return tmp_path, cell


def test_an_old_record_becomes_todays_byte_for_byte(one: tuple[Path, Cell]) -> None:
    records, cell = one
    path = path_of(records, cell)
    today = path.read_bytes()
    arrays = as_format_1(path, cell)
    assert path.read_bytes() != today
    assert migrate(records) == []
    assert path.read_bytes() == today
    summary = read_summary(records, cell, key=cell.key(cell.load()))
    assert summary is not None
    np.testing.assert_array_equal(summary.extras["means"], arrays["extra.means"])
    assert migrate(records) == []  # a record of today is left alone
    assert path.read_bytes() == today


@pytest.mark.parametrize("damage", ["settings", "checksum", "bytes", "name"])
def test_what_is_not_valid_is_reported_and_left_alone(damage: str, one: tuple[Path, Cell]) -> None:
    records, cell = one
    path = path_of(records, cell)
    as_format_1(path, cell)
    content = path.read_bytes()
    if damage == "settings":
        (other,) = cells("batch-size", tasks=["concrete"], methods=["32"])
        path = path_of(records, other)
    elif damage == "name":
        path = records / "mine.npz"
    path.write_bytes({"checksum": content[:-1] + b"x", "bytes": content[:99]}.get(damage, content))
    before = path.read_bytes()
    (problem,) = migrate(records)
    assert problem.startswith(f"{path}: ")
    reasons = {
        "settings": "other settings or data",
        "checksum": "checksum is wrong",
        "bytes": "cannot be read",
        "name": "no experiment",
    }
    assert reasons[damage] in problem
    assert path.read_bytes() == before
