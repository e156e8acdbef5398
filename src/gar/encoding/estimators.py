"""Input of estimators: the table that ``fit`` or ``predict`` is given, checked in scikit-learn's manner, and its codes."""

from collections.abc import Collection, Iterable
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import validate_data

from gar.encoding.encoder import Encoder
from gar.encoding.frames import Columns, columns_of, is_frame
from gar.encoding.notes import quoted
from gar.errors import InputError


def checked_table(estimator: Any, table: Any, *, reset: bool) -> Columns:
    """Return the columns of a frame of pandas or polars, or of numbers; infinite numbers are an error in arrays alone.

    With ``reset``, the estimator gets ``n_features_in_`` and ``feature_names_in_``; without it, the table must agree with them, and
    the error names columns that are missing or not expected.
    """
    fewest = 2 if reset else 1
    if not is_frame(table):
        return columns_of(
            validate_data(estimator, table, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=fewest, reset=reset)
        )
    validate_data(estimator, table, skip_check_array=True, reset=reset)
    if len(table) < fewest:
        raise InputError(f"the table has {len(table)} rows; {type(estimator).__name__} needs a minimum of {fewest}")
    return columns_of(table)


def inferred_codes(estimator: Any, columns: Columns, weight: np.ndarray | None, *, fill: bool = True) -> tuple[Encoder, np.ndarray]:
    """Return the encoder of a table that an estimator is fitted to, by its ``categorical_features``, and the codes of its rows.

    Rows of weight 0 count for nothing: their codes are NaN.
    """
    categorical = categorical_names(estimator.categorical_features, list(columns))
    rows = len(next(iter(columns.values())).values) if columns else 0
    counted = np.ones(rows, dtype=bool) if weight is None or not weight.any() else weight > 0
    used = columns if counted.all() else {name: cells.take(counted) for name, cells in columns.items()}
    encoder = Encoder.infer(used, categorical=categorical, fill=fill)
    codes = encoder.codes(used)
    if counted.all():
        return encoder, codes
    every = np.full((rows, codes.shape[1]), np.nan)
    every[counted] = codes
    return encoder, every


def categorical_names(given: Any, names: list[str]) -> Collection[str] | Literal["from_dtype"] | None:
    """Return the names of columns that are given by name, by index, or by a mask; ``"from_dtype"`` and None stay as they are."""
    if given is None or (isinstance(given, str) and given == "from_dtype"):
        return None if given is None else "from_dtype"
    values: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [None]
    if all(isinstance(value, str) for value in values):
        found = values
    elif all(isinstance(value, bool | np.bool_) for value in values) and len(values) == len(names):
        found = [name for name, chosen in zip(names, values, strict=True) if chosen]
    elif all(type(value) is not bool and isinstance(value, int | np.integer) and 0 <= value < len(names) for value in values):
        found = [names[value] for value in values]
    else:
        raise InputError(
            f"categorical_features={given!r}; expected 'from_dtype', None, names of columns, indices from 0 to {len(names) - 1}, "
            f"or a mask of {len(names)} values"
        )
    if unknown := [name for name in found if name not in names]:
        raise InputError(f"categorical_features names {quoted(unknown)}; the table has {quoted(names)}")
    return found
