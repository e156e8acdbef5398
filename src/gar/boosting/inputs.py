"""Arguments of objectives and metrics: the ways in which libraries pass them, checked and brought into one form."""

from typing import Any, NamedTuple

import numpy as np

from gar.boosting.workers import is_distributed, refuse_lightgbm_workers
from gar.errors import InputError


class Arrays(NamedTuple):
    """Predictions and labels ``(rows, targets)``, and weights ``(rows,)`` or None: floating-point numbers."""

    pred: np.ndarray
    target: np.ndarray
    weight: np.ndarray | None


def from_library(first: Any, second: Any, sample_weight: Any) -> Arrays:
    """Return the arguments of an objective or metric, in whichever way the library passes them.

    ``train`` of both libraries passes predictions and their own data set, the scikit-learn interfaces labels, predictions and
    perhaps weights.
    """
    if is_data_set(second):
        refuse_lightgbm_workers(second)
        weight = second.get_weight()
        return checked(first, second.get_label(), weight if weight is not None and len(weight) else None)
    return checked(second, first, sample_weight)


def is_data_set(second: Any) -> bool:
    """Return True for a library's own data set, which ``train`` passes as the second argument."""
    return hasattr(second, "get_label")


def checked(pred: Any, target: Any, weight: Any) -> Arrays:
    """Return predictions, labels and weights as arrays whose shapes match."""
    pred, target = _floating(pred, "predictions"), _floating(target, "labels")
    if pred.size != target.size or pred.ndim > 2:
        raise InputError(
            f"predictions have shape {pred.shape}, labels {target.shape}; expected one prediction for each label. XGBoost takes "
            "labels of shape (rows, targets); for LightGBM, which has a single target, fit one model per target"
        )
    rows = len(pred)
    if rows < 2 and not is_distributed():  # a worker may have no rows
        raise InputError(f"GAR compares rows, but there are {rows}; expected 2 or more")
    pred = pred.reshape(rows, pred.size // rows if rows else 1)
    return Arrays(pred, target.reshape(pred.shape), None if weight is None else _checked_weight(weight, rows))


def _floating(given: Any, name: str) -> np.ndarray:
    values: np.ndarray = np.asarray(given)
    try:
        return values if values.dtype.kind == "f" else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} have dtype {values.dtype}, which are no numbers ({error})") from error


def _checked_weight(given: Any, rows: int) -> np.ndarray:
    weight: np.ndarray = np.asarray(given, dtype=np.float64)
    if weight.shape != (rows,):
        raise InputError(f"sample_weight has shape {weight.shape}; expected one value per row: ({rows},)")
    lowest, total = float(weight.min(initial=0.0)), float(weight.sum())
    if not (lowest >= 0 and (total > 0 or is_distributed()) and total < np.inf):
        raise InputError(f"sample_weight has minimum {lowest:g} and sum {total:g}; expected finite numbers >= 0, not all of them 0")
    return weight


def check_group_length(codes: np.ndarray | None, rows: int, *, name: str = "groups") -> None:
    """Raise an error unless there is one group per row, or none at all."""
    if codes is not None and is_distributed():
        raise InputError(
            "groups are of the rows of one process, but XGBoost trains with several workers, whose rows only it knows; "
            "leave groups out, or train on one machine"
        )
    if codes is not None and len(codes) != rows:
        raise InputError(f"{name} has {len(codes)} values, but there are {rows} rows; give one group per row, in their order")


def check_labels(target: np.ndarray) -> None:
    """Raise an error for NaN or infinite labels; a finite sum proves that all are finite."""
    with np.errstate(all="ignore"):
        total = target.sum()
    if not np.isfinite(total):
        bad = int((~np.isfinite(target)).sum())
        if bad:
            raise InputError(f"labels have {bad} NaN or infinite of {target.size} values; remove these rows before training")
