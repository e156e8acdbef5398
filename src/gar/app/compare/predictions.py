"""Predictions of a table by a saved model, with what a reader should know about them."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from gar.app.compare.grids import scores_of
from gar.app.compare.source import named_columns
from gar.app.models import Model
from gar.app.report.formatting import short
from gar.app.report.summary import WITHIN
from gar.app.tables import target_values
from gar.encoding import DateColumn, NumericColumn
from gar.errors import InputError, quoted
from gar.registry import METRICS


def predict_table(
    model: Model, frame: pd.DataFrame, *, keep: Sequence[str] = (), fill: Sequence[str] = ()
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the columns to keep beside one column of predictions per target, and notes on them.

    Args:
        model: a saved model.
        frame: a table with the columns that it was trained on.
        keep: columns to keep, such as an id; ``"a,b"`` is two of them.
        fill: columns that the table lacks; all their values are taken as missing.
    """
    kept = frame[named_columns(frame, keep, "keep")]
    whole = _filled(model, frame, fill)
    predicted = model.predict(whole)
    names = [_harmless(name) for name in (*map(str, kept.columns), *model.targets)]
    if len(set(names)) < len(names):
        raise InputError(f"keep names {quoted(kept.columns)}, and the predictions are called {quoted(model.targets)}; keep others")
    columns = [kept.reset_index(drop=True), pd.DataFrame(predicted)]
    notes = (
        *model.encoders[0].unknown_categories(whole),
        *_notes_on_ranges(model, whole),
        *_notes_on_scores(model, frame, predicted),
    )
    return pd.concat(columns, axis=1).set_axis(names, axis=1), notes


def _filled(model: Model, frame: pd.DataFrame, fill: Sequence[str]) -> pd.DataFrame:
    """Return the table with columns that it lacks, all of whose values are missing."""
    known = pd.DataFrame(columns=[column.name for column in model.encoders[0].columns])
    absent = [name for name in named_columns(known, fill, "fill") if name not in frame.columns]
    return frame.assign(**dict.fromkeys(absent, np.nan)) if absent else frame


def _notes_on_ranges(model: Model, frame: pd.DataFrame) -> Iterator[str]:
    """Say how many rows have a number that is smaller or larger than any in training."""
    ranges, outside = model.about.get("ranges", {}), np.zeros(len(frame), dtype=bool)
    named: dict[str, int] = {}
    encoder = model.encoders[0]
    for column, codes in zip(encoder.columns, encoder.codes(frame).T, strict=True):
        if isinstance(column, NumericColumn | DateColumn) and column.name in ranges:
            low, high = ranges[column.name]
            is_outside = (codes < low) | (codes > high)
            named |= {column.name: int(is_outside.sum())} if is_outside.any() else {}
            outside |= is_outside
    if named:
        most = max(named, key=lambda name: named[name])
        yield (
            f"{int(outside.sum())} of {len(frame)} rows lie outside of what the model was trained on, most by {most!r} "
            f"({named[most]}): their predictions are extrapolations"
        )


def _notes_on_scores(model: Model, frame: pd.DataFrame, predicted: np.ndarray) -> Iterator[str]:
    """Give the scores of each target whose labels are in the table."""
    for index, name in enumerate(model.targets):
        if name not in frame.columns or frame.columns.tolist().count(name) > 1:
            continue
        try:
            labels = target_values(frame, [name])
        except InputError:  # something else than labels has this name
            continue
        pairs, where = _pairs(model, frame)
        scores = scores_of(labels, predicted[:, index : index + 1], pairs)
        known = int((~np.isnan(labels)).sum())
        text = ", ".join(
            f"{METRICS[metric].title}{where.get(metric, '')} {short(value)}"
            for metric, value in scores.items()
            if np.isfinite(value)
        )
        yield f"{known} rows have a label of {name!r}: {text}"


def _pairs(model: Model, frame: pd.DataFrame) -> tuple[np.ndarray | None, dict[str, str]]:
    """Return the groups within which the model was trained to compare rows, if the table has them, and words on these metrics."""
    names = str(model.about.get("pairs_within", "")).split(", ")
    if not set(names) <= set(frame.columns) or frame[names].isna().any(axis=None):
        return None, {}
    where = dict.fromkeys(WITHIN, f" within {', '.join(names)}")
    return frame.groupby(names, sort=False).ngroup().to_numpy(copy=True), where


def _harmless(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula, which could open an address or run a command."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
