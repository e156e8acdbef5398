"""A digest: the small record of one unit, from which tables and figures are made. It is the same on every run, byte for byte."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gar.files import write_whole
from gar.metrics import LARGER_IS_BETTER, METRICS
from gar.search import RecordWarning
from gar.search.records import DamagedError, from_bytes, to_bytes
from gar.stack import History, Layout, Models, StackData
from gar_reproduction.unit import Unit

_SUFFIX = ".npz"
_SCORES = ("epoch", "valid", "test", "failed_epoch")


@dataclass(frozen=True, kw_only=True, eq=False)
class Digest:
    """For each model and metric the epoch that is best on the validation rows, and what it is worth.

    Args:
        about: name and fingerprints of the unit, and sizes of its data.
        models: what the models differ in.
        epoch: best by each metric, counted from 0; -1 where there is none, ``(G, metrics)``.
        valid: validation value of that epoch, ``(G, metrics)``, NaN where there is none.
        test: its test value.
        failed_epoch: when a model diverged, -1 for never, ``(G,)``.
        extras: further arrays by name: what the unit keeps.
    """

    about: Mapping[str, Any]
    models: Models
    epoch: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    failed_epoch: np.ndarray
    extras: Mapping[str, np.ndarray]

    @property
    def history(self) -> History:
        """As a history of one epoch, in which every metric has its own best: what :func:`gar.search.select` chooses from."""
        return History(
            layout=Layout((1, 1)),
            metrics=np.stack([self.valid, self.test], 1)[:, None],
            epochs_run=np.ones(len(self.models), np.int64),
            failed_epoch=self.failed_epoch,
            best_epoch=np.zeros(len(self.models), np.int64),
        )


def make_digest(unit: Unit, data: StackData, history: History, extras: Mapping[str, np.ndarray]) -> Digest:
    """What is kept of a whole history."""
    valid, test = history.metrics[:, :, 0], history.metrics[:, :, 1]
    sign = np.array([-1.0 if LARGER_IS_BETTER[metric] else 1.0 for metric in METRICS])
    cost = np.where(np.isfinite(valid), sign * valid, np.inf)
    best = cost.argmin(1)
    none = np.isinf(cost.min(1))
    return Digest(
        about=_about(unit, data),
        models=unit.models,
        epoch=np.where(none, -1, best).astype(np.int16),
        valid=np.where(none, np.nan, np.take_along_axis(valid, best[:, None], 1)[:, 0]),
        test=np.where(none, np.nan, np.take_along_axis(test, best[:, None], 1)[:, 0]),
        failed_epoch=history.failed_epoch.astype(np.int16),
        extras=extras,
    )


def _about(unit: Unit, data: StackData) -> dict[str, Any]:
    """Sizes are means over folds; label scales are those of the folds, None for raw labels."""
    folds = data.folds
    scales = [None if fold.labels is None else fold.labels.scale.tolist() for fold in folds]
    return {
        "unit": unit.name,
        "plan": unit.plan,
        "key": unit.key(data),
        "origin": list(unit.origin()),
        "rows": len(data.x),
        "train_rows": float(np.mean([len(fold.train) for fold in folds])),
        "test_rows": float(np.mean([len(fold.test) for fold in folds])),
        "label_scales": None if None in scales else scales,
    }


def path_of(records: Path, unit: Unit) -> Path:
    return records / unit.experiment / unit.task / f"{unit.variant}{_SUFFIX}"


def write_digest(records: Path, unit: Unit, digest: Digest) -> None:
    path = path_of(records, unit)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"about": np.array(json.dumps(digest.about, sort_keys=True))}
    arrays |= {f"model.{name}": _short(column) for name, column in digest.models.columns().items()}
    arrays |= {name: getattr(digest, name) for name in _SCORES} | {f"extra.{name}": digest.extras[name] for name in digest.extras}
    write_whole(path, to_bytes(arrays))


def _short(column: np.ndarray) -> np.ndarray:
    """Folds and seeds are small numbers."""
    return column.astype(np.int32) if column.dtype.kind == "i" else column


def read_digest(records: Path, unit: Unit, *, key: str | None = None) -> Digest | None:
    """The record of a unit; None if there is none, or none that can be used.

    A file that is damaged, or belongs to other settings than the unit has today, is named in a warning.

    Args:
        records: the folder.
        unit: whose.
        key: with data at hand, the unit's whole fingerprint; without, only its plan is compared.
    """
    path = path_of(records, unit)
    try:
        digest = _decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except DamagedError as error:
        _warn(path, f"is damaged: {error}")
        return None
    if digest.about.get("plan") != unit.plan or (key is not None and digest.about.get("key") != key):
        _warn(path, "is stale: it was made with other settings or data")
        return None
    return digest


def _warn(path: Path, reason: str) -> None:
    warnings.warn(f"record {path} {reason}. It counts as not run", RecordWarning, stacklevel=3)


def _decode(content: bytes) -> Digest:
    arrays = from_bytes(content)
    try:
        columns = _part(arrays, "model.")
        return Digest(
            about=json.loads(str(arrays["about"])),
            models=Models(**columns),
            **{name: arrays[name] for name in _SCORES},
            extras=_part(arrays, "extra."),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"it is no record of a unit ({error})") from error


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
