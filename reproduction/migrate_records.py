"""Bring records of format 1 into today's format: ``python reproduction/migrate_records.py [RECORDS]``.

Every record is first checked by the rules of format 1, which stand below and do not depend on today's: its checksum, and the
fingerprints of its settings, models and data, computed anew. Then it is written with today's fingerprints; its arrays stay as
they are. A record in today's format is left alone, and one that is not valid stays as it is and is reported. The data sets must
be in the data folder.
"""

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from gar_reproduction.cell import FORMAT, Cell
from gar_reproduction.experiments import CELL_EXPERIMENTS, cells
from gar_reproduction.folders import records_folder
from gar_reproduction.summary import Summary, identity, path_of, read_summary, write_summary

RENAMED: Mapping[str, str] = {"gates": "feature_gates"}
"""Attributes whose name has changed since format 1: the old name and today's."""

_SETTINGS = (
    *("hidden_sizes", "activation", "gates", "epochs", "batch_size", "drop_last", "optimizer", "momentum", "betas", "eps"),
    *("schedule", "milestones", "loss", "loss_options", "pretrain_epochs", "finetune_loss", "patience"),
)
_SCORES = ("epoch", "valid", "test", "failed_epoch")


def migrate(records: Path) -> list[str]:
    """Migrate all records of a folder; return a line for each that is not valid."""
    known = {path_of(records, cell): cell for name in CELL_EXPERIMENTS for cell in cells(name)}
    problems = [f"{path}: no experiment has such a cell" for path in sorted(set(records.rglob("*.npz")) - set(known))]
    for path, cell in known.items():
        if path.is_file() and (problem := _migrate(records, path, cell)) is not None:
            problems.append(f"{path}: {problem}")
    return problems


def _migrate(records: Path, path: Path, cell: Cell) -> str | None:
    """Migrate one record; return why it is not valid, if it is not."""
    content = path.read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(str(arrays["about"]))
    except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
        return f"it cannot be read ({error})"
    if about.get("format") == FORMAT:
        return None
    data = cell.load()
    plan = _fingerprint((1, cell.recorded, _settings_then(cell), _columns_then(arrays)))
    if not _has_checksum(content):
        return "its checksum is wrong"
    if (about["unit"], about["plan"], about["key"]) != (cell.name, plan, _fingerprint((plan, _data_then(data)))):
        return "it was made with other settings or data"
    kept = {name: value for name, value in about.items() if name not in ("unit", "plan", "key")}
    extras = {name.removeprefix("extra."): array for name, array in arrays.items() if name.startswith("extra.")}
    scores = {name: arrays[name] for name in _SCORES}
    summary = Summary(about={**identity(cell, data), **kept}, models=cell.models, **scores, extras=extras)
    write_summary(records, cell, summary)
    again = read_summary(records, cell, key=cell.key(data))
    assert again is not None
    written = {name: getattr(again, name) for name in _SCORES} | dict(again.extras)
    assert all(np.array_equal(array, written[name], equal_nan=True) for name, array in (scores | extras).items())
    return None


def _has_checksum(content: bytes) -> bool:
    """In format 1, the comment of the zip file is a checksum of the file without it."""
    comment = zipfile.ZipFile(io.BytesIO(content)).comment
    return comment == b"sha256:" + hashlib.sha256(content[: -len(comment) - 2] + b"\0\0").hexdigest().encode()


def _get(value: Any, name: str) -> Any:
    return getattr(value, RENAMED.get(name, name))


def _settings_then(cell: Cell) -> dict[str, Any]:
    """Settings that counted in format 1; one that came later counted where it was not at its default, which no cell has."""
    return {name: _get(cell.settings, name) for name in _SETTINGS}


def _columns_then(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns of the models; whole numbers are written with 32 bits and counted with 64."""
    columns = {name.removeprefix("model."): array for name, array in arrays.items() if name.startswith("model.")}
    return {name: column.astype(np.int64) if column.dtype.kind == "i" else column for name, column in columns.items()}


def _data_then(data: Any) -> dict[str, Any]:
    return {
        "x": _get(data, "x").float(),
        "y": _get(data, "y").float(),
        "sample_weight": _get(data, "sample_weight"),
        "folds": [
            {part: _get(fold, part) for part in ("train", "valid", "test")}
            | {part: _scaling_then(_get(fold, part)) for part in ("features", "labels")}
            for fold in _get(data, "folds")
        ],
    }


def _scaling_then(scaling: Any) -> dict[str, Tensor] | None:
    return None if scaling is None else {name: _get(scaling, name).float() for name in ("center", "scale")}


def _fingerprint(value: object) -> str:
    digest = hashlib.sha256()
    for token in _tokens(value):
        digest.update(len(token).to_bytes(8, "little"))
        digest.update(token)
    return digest.hexdigest()


def _tokens(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, bool | int | float | str):
        yield repr(value).encode()
    elif isinstance(value, Tensor | np.ndarray):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield np.asarray(value).tobytes()
    elif isinstance(value, list | tuple):
        yield f"sequence {len(value)}".encode()
        for item in value:
            yield from _tokens(item)
    else:
        yield f"fields {len(value)}".encode()
        for key, item in sorted(value.items()):
            yield repr(key).encode()
            yield from _tokens(item)


if __name__ == "__main__":
    found = migrate(Path(sys.argv[1]) if len(sys.argv) > 1 else records_folder())
    sys.exit("\n".join(found) or None)
