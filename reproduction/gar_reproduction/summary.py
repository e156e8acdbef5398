"""The summary of a cell: its small record, from which tables and figures are made. It is the same on every run, byte for byte."""

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gar.files import write_whole
from gar.registry import METRICS
from gar.search import RecordWarning
from gar.search.records import DamagedError, from_bytes, to_bytes
from gar.stack import History, Layout, Models, StackData
from gar_reproduction.cell import FORMAT, Cell

_SCORES = ("epoch", "valid", "test", "failed_epoch")


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary:
    """For each model and metric the epoch that is best on the validation rows, and its scores.

    Args:
        about: name and fingerprints of the cell, and sizes of its data.
        models: what the models differ in.
        epoch: best by each metric, counted from 0; -1 where there is none, ``(G, metrics)``.
        valid: validation score of that epoch, ``(G, metrics)``, NaN where there is none.
        test: its test score.
        failed_epoch: when a model diverged, -1 for never, ``(G,)``.
        extras: further arrays by name, as the cell's ``recorded`` says.
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
        """A history of one epoch, in which every metric has its own best: :func:`gar.search.select` chooses from it."""
        return History(
            layout=Layout((1, 1)),
            metrics=np.stack([self.valid, self.test], 1)[:, None],
            epochs_run=np.ones(len(self.models), np.int64),
            failed_epoch=self.failed_epoch,
            best_epoch=np.zeros(len(self.models), np.int64),
        )


def summarize(cell: Cell, data: StackData, history: History, extras: Mapping[str, np.ndarray]) -> Summary:
    """Return the summary of a whole history."""
    valid, test = history.metrics[:, :, 0], history.metrics[:, :, 1]
    score = valid * [metric.sign for metric in METRICS.values()]
    score = np.where(np.isfinite(score), score, -np.inf)
    best, none = score.argmax(1), np.isinf(score.max(1))
    return Summary(
        about=_about(cell, data),
        models=cell.models,
        epoch=np.where(none, -1, best).astype(np.int16),
        valid=np.where(none, np.nan, np.take_along_axis(valid, best[:, None], 1)[:, 0]),
        test=np.where(none, np.nan, np.take_along_axis(test, best[:, None], 1)[:, 0]),
        failed_epoch=history.failed_epoch.astype(np.int16),
        extras=extras,
    )


def _about(cell: Cell, data: StackData) -> dict[str, Any]:
    """Describe a cell: sizes are means over folds; label scales are those of the folds, None for raw labels."""
    folds = data.folds
    scales = [None if fold.labels is None else fold.labels.scale.tolist() for fold in folds]
    return {
        **identity(cell, data),
        "origin": list(cell.origin()),
        "rows": len(data.x),
        "train_rows": float(np.mean([len(fold.train) for fold in folds])),
        "test_rows": float(np.mean([len(fold.test) for fold in folds])),
        "label_scales": None if None in scales else scales,
    }


def identity(cell: Cell, data: StackData) -> dict[str, Any]:
    """Return what a record says of the cell that it belongs to."""
    return {"format": FORMAT, "cell": cell.name, "plan": cell.plan, "key": cell.key(data)}


def path_of(records: Path, cell: Cell) -> Path:
    """Return the file of a cell's record."""
    return records / cell.experiment / cell.task / f"{cell.variant}.npz"


def write_summary(records: Path, cell: Cell, summary: Summary) -> None:
    """Write the record of a cell."""
    path = path_of(records, cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"about": np.array(json.dumps(summary.about, sort_keys=True))}
    arrays |= {f"model.{name}": _short(column) for name, column in summary.models.columns().items()}
    arrays |= {name: getattr(summary, name) for name in _SCORES} | {
        f"extra.{name}": array for name, array in summary.extras.items()
    }
    write_whole(path, to_bytes(arrays))


def _short(column: np.ndarray) -> np.ndarray:
    """Folds and seeds are small numbers."""
    return column.astype(np.int32) if column.dtype.kind == "i" else column


def read_summary(records: Path, cell: Cell, *, key: str | None = None) -> Summary | None:
    """Return the record of a cell; None if there is none, or none that can be used.

    A file that is damaged, or belongs to other settings than the cell has today, is named in a warning.

    Args:
        records: the folder.
        cell: whose record.
        key: the cell's key, if its data is loaded; without it, only the plan is compared.
    """
    path = path_of(records, cell)
    try:
        summary = _decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except DamagedError as error:
        _warn(path, f"is damaged: {error}")
        return None
    if summary.about.get("plan") != cell.plan or (key is not None and summary.about.get("key") != key):
        _warn(path, "is stale: it was made with other settings or data")
        return None
    return summary


def read_summaries(records: Path, cells: Iterable[Cell]) -> dict[tuple[str, str], Summary]:
    """Return all usable records by task and variant. A damaged or stale one counts as not run, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        found = {(cell.task, cell.variant): read_summary(records, cell) for cell in cells}
    return {key: summary for key, summary in found.items() if summary is not None}


def _warn(path: Path, reason: str) -> None:
    warnings.warn(f"record {path} {reason}. It counts as not run", RecordWarning, stacklevel=3)


def _decode(content: bytes) -> Summary:
    arrays = from_bytes(content)
    try:
        return Summary(
            about=json.loads(str(arrays["about"])),
            models=Models(**_part(arrays, "model.")),
            **{name: arrays[name] for name in _SCORES},
            extras=_part(arrays, "extra."),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"it is no record of an experiment cell ({error})") from error


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
