"""From a file, a frame or a data set's name to folds of numbers: which columns are features, which labels, which rows train."""

import hashlib
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gar.app.compare.options import Options
from gar.app.plugins import installed
from gar.app.tables import Parts, group_folds, ordered_folds, read_with_notes, resampled_folds, shuffled_folds, target_values
from gar.app.tables.columns import is_numeric, to_floats
from gar.encoding import Encoder, encode_folds
from gar.errors import InputError, quoted
from gar.estimators.base import check_labels
from gar.estimators.halving import VALIDATION_ROWS
from gar.estimators.regressor_cv import LARGE_ROWS
from gar.groups import ROWS_TOGETHER, parts_of_groups
from gar.stack import StackData

DIABETES = "diabetes"
FOLDS, LARGE_FOLDS = 5, 3
"""Number of folds of a table, and of random splits of a large one."""
_NAMELESS = ("Unnamed: 0", "column 1")
"""Names of a first column whose header is empty, in text and in workbooks."""
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")
_NEEDS_DIFFERENT_LABELS = ("pearson", "spearman", "r2")
"""Metrics that are undefined where labels are equal."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A table to compare on: features with column names, and labels."""

    name: str
    title: str
    source: str
    features: pd.DataFrame
    labels: np.ndarray
    """``(rows, targets)``, NaN where one is missing."""
    targets: tuple[str, ...]
    groups: np.ndarray | None = None
    """Rows with equal numbers stay together in one part of a split."""
    times: np.ndarray | None = None
    """Rows are split in this order, and the last ones are tested."""
    pairs: np.ndarray | None = None
    """Rows with equal numbers are compared with each other, and with no others."""
    pairs_within: str | None = None
    """What these numbers stand for: the name of a column."""
    notes: tuple[str, ...] = ()
    sha256: str | None = None


def source_of_file(
    path: str | os.PathLike[str],
    *,
    targets: Sequence[str],
    group: str | None = None,
    time: str | None = None,
    pairs_within: str | None = None,
    drop: Sequence[str] = (),
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Source:
    """Read a table from a file of any format that :func:`gar.app.tables.read_table` reads.

    Args:
        path: the file.
        targets: names of columns to predict; ``"a,b"`` is two of them, unless a column has just that name.
        group: column by which rows are split: those of equal value stay together in one part. It is no feature.
        time: column of dates or numbers by which rows are split in order: the last fifth is tested. It stays a feature.
        pairs_within: column by which rows are compared: losses that compare rows compare those of equal value only, and
            correlations are means over these groups. It is no feature, and splits no rows, for which there is ``group``.
        drop: names of columns that are no features either, written like ``targets``.
        delimiter: between columns of text; None detects it.
        encoding: of text; None detects it.
    """
    frame, notes = read_with_notes(path, delimiter=delimiter, encoding=encoding)
    plain = Path(path).stem if Path(path).suffix in _COMPRESSED else Path(path).name
    named = {"name": Path(plain).stem, "source": Path(path).name}
    source = source_of_frame(frame, targets=targets, group=group, time=time, pairs_within=pairs_within, drop=drop, **named)
    with Path(path).open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return replace(source, notes=(*notes, *source.notes), sha256=checksum)


def source_of_frame(
    frame: pd.DataFrame,
    *,
    targets: Sequence[str],
    group: str | None = None,
    time: str | None = None,
    pairs_within: str | None = None,
    drop: Sequence[str] = (),
    name: str = "table",
    source: str = "a table in memory",
) -> Source:
    """Like :func:`source_of_file`, but take a frame of pandas, or one with ``to_pandas``, such as that of polars."""
    table = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"the table is of type {type(frame).__name__}; expected a DataFrame of pandas, or one with to_pandas()")
    wanted = named_columns(table, targets, "target")
    if not wanted:
        raise InputError(
            f"no target is given; say which columns to predict: --target COL; there are the columns {quoted(table.columns)}"
        )
    grouped = [] if group is None else named_columns(table, [group], "group")
    timed, dropped = [] if time is None else named_columns(table, [time], "time"), named_columns(table, drop, "drop")
    paired = [] if pairs_within is None else named_columns(table, [pairs_within], "pairs_within")
    if grouped and timed:
        raise InputError(f"group={group!r} and time={time!r} are two ways to split the rows; choose one")
    for column in [*wanted, *grouped, *timed, *paired]:
        if column in wanted and column in (*grouped, *timed, *paired, *dropped):
            raise InputError(f"column {column!r} is a target and cannot be left out, group, pair or order rows; choose another")
        if (count := int((table.columns == column).sum())) > 1:
            raise InputError(f"{count} columns are called {column!r}; rename all but one")
    features, notes = _without_index(table.drop(columns=[*wanted, *grouped, *paired, *dropped]), str(table.columns[0]))
    if features.shape[1] == 0:
        raise InputError(f"{source} has no column left to predict from; a table needs a feature besides its targets")
    return Source(
        name=name,
        title=name,
        source=source,
        features=features,
        labels=target_values(table, wanted),
        targets=tuple(wanted),
        groups=_groups(table, grouped, "group") if grouped else None,
        times=_times(table, timed) if timed else None,
        pairs=_groups(table, paired, "pairs_within") if paired else None,
        pairs_within=", ".join(paired) or None,
        notes=notes,
    )


def named_columns(frame: pd.DataFrame, given: Iterable[str], option: str) -> list[str]:
    """Return column names as they are, or the parts between commas; a string alone is one name, or its parts."""
    names: list[str] = []
    for text in [given] if isinstance(given, str) or not isinstance(given, Iterable) else given:
        if not isinstance(text, str):
            raise InputError(f"{option} {text!r} is not text; expected names of columns, which are text, such as 'price'")
        names += [text] if text in frame.columns else [part.strip() for part in text.split(",")]
    for name in names:
        if name not in frame.columns:
            near = get_close_matches(name, map(str, frame.columns), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are the columns {quoted(frame.columns)}"
            raise InputError(f"{option} {name!r} is not a column of the table; {hint}")
    return list(dict.fromkeys(names))


def _without_index(features: pd.DataFrame, first: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Drop the first column if it is an index without a name; return notes on it and on other columns that count the rows."""
    notes = []
    if first in _NAMELESS and first in features.columns and features.shape[1] > 1 and _counts_rows(features[first]):
        features = features.drop(columns=first)
        notes.append(f"column {first!r} was left out: it has no name in the file, and counts the rows as an index does")
    notes += [
        f"column {str(name)!r} counts the rows and is taken as a feature; "
        f"if it is none, leave it out: --drop {shlex.quote(str(name))}"
        for name, series in features.items()
        if _counts_rows(series)
    ]
    return features, tuple(notes)


def _counts_rows(series: pd.Series) -> bool:
    """Return True if the values are 0, 1, 2, ... or 1, 2, 3, ..."""
    if not is_numeric(series) or len(series) == 0:
        return False
    values = to_floats(series)
    return values[0] in (0, 1) and np.array_equal(values - values[0], np.arange(len(values)))


def _groups(frame: pd.DataFrame, columns: list[str], option: str) -> np.ndarray:
    """Return a group number for every row, equal where all of the columns are."""
    missing = int(frame[columns].isna().any(axis=1).sum())
    if missing:
        raise InputError(f"{option} {', '.join(columns)!r} is empty in {missing} rows; fill it, or remove these rows")
    return np.asarray(frame.groupby(columns, sort=False).ngroup())


def _times(frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """Return a number for every row, by which rows are in order."""
    if len(columns) > 1:
        raise InputError(f"time {', '.join(columns)!r} is {len(columns)} columns; name one that holds dates or numbers")
    encoder = Encoder.infer(frame[columns])
    if encoder.categorical_columns:
        raise InputError(
            f"time {columns[0]!r} holds text that is neither dates nor numbers; name a column by which rows are in order"
        )
    values = encoder.codes(frame)[:, 0]
    if missing := int(np.isnan(values).sum()):
        raise InputError(f"time {columns[0]!r} is empty in {missing} rows; fill it, or remove these rows")
    return values


def data_set_names() -> list[str]:
    """Return the names of all data sets: scikit-learn's diabetes, and those of installed packages (group ``gar.data_sets``)."""
    return [DIABETES, *(name for provider in installed("gar.data_sets") for name in provider.names())]


def source_of_data_set(name: str, *, group: str | None = None) -> Source:
    """Return a data set by name; ``group`` names the column of its groups, if it has any."""
    if name == DIABETES and group is None:
        return _diabetes()
    if name == DIABETES:
        raise InputError(f"group={group!r} is not known; {DIABETES} has no groups")
    for provider in installed("gar.data_sets"):
        if name in provider.names():
            found: Source = provider.source(name, group=group)
            return found
    raise InputError(
        f"{name!r} is neither a file nor a data set; check the path, or choose one of {', '.join(data_set_names())} "
        "(the paper's tables come with the package gar-reproduction)"
    )


def _diabetes() -> Source:
    from sklearn.datasets import load_diabetes

    features, labels = load_diabetes(return_X_y=True, as_frame=True)
    return Source(
        name=DIABETES,
        title="Diabetes",
        source="scikit-learn",
        features=features,
        labels=labels.to_numpy(np.float64)[:, None],
        targets=("progression",),
        notes=("Part of scikit-learn, features scaled.",),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A table that is split into parts, with its columns as codes of an encoder."""

    source: Source
    """Only rows that have a label."""
    parts: list[Parts]
    """Training, validation and test rows of every fold."""
    encoder: Encoder
    """Not yet fitted to the training rows of a fold."""
    codes: np.ndarray
    """Cells as numbers, ``(rows, columns)``."""
    encoding_seconds: float
    """How long it took to read the cells as codes."""
    is_scaled: bool
    """Whether labels are standardised; those of the paper's preset are not."""
    notes: tuple[str, ...]

    @property
    def test(self) -> np.ndarray:
        """Row numbers of the test part, which all folds share."""
        return self.parts[0][2]

    @property
    def train_rows(self) -> int:
        """Training rows of a fold: the mean, where folds differ."""
        return round(sum(len(train) for train, _, _ in self.parts) / len(self.parts))

    @property
    def split(self) -> str:
        """How rows were split, in words."""
        source = self.source
        if source.times is not None:
            return "the last in time"
        if source.groups is not None:
            return "whole groups"
        return "at random" if source.pairs is None else f"at random, up to {ROWS_TOGETHER} rows of a group together"

    def pairs_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the groups within which these rows are compared; None if all are."""
        return None if self.source.pairs is None else self.source.pairs[rows]

    @property
    def digest(self) -> np.ndarray:
        """A number for each row, equal where all features are."""
        return np.asarray(pd.util.hash_pandas_object(self.source.features, index=False))

    def about(self, loss: str, title: str, metric: str) -> dict[str, Any]:
        """Return what a saved model says about itself: among others, the range of each column of numbers in training."""
        rest, categorical = np.setdiff1d(np.arange(len(self.codes)), self.test), self.encoder.categorical_columns
        ranges = {
            column.name: [float(np.nanmin(codes)), float(np.nanmax(codes))]
            for column, codes in zip(self.encoder.columns, self.codes[rest].T, strict=True)
            if column not in categorical and not np.isnan(codes).all()
        }
        known = {"loss": loss, "title": title, "metric": metric, "table": self.source.name, "ranges": ranges}
        return known if self.source.pairs_within is None else {**known, "pairs_within": self.source.pairs_within}

    @cached_property
    def folds(self) -> tuple[StackData, tuple[Encoder, ...]]:
        """The features of every fold as numbers, by what its own training rows contain, and the fitted encoders."""
        encoded = encode_folds(self.encoder, self.codes, self.source.labels, self.parts)
        data = StackData(
            encoded.x,
            self.source.labels[encoded.rows],
            encoded.parts,
            scale_features="robust" if self.is_scaled else True,
            scale_labels=self.is_scaled,
            bound_predictions=self.is_scaled,
        )
        return data, tuple(encoded.encoders)


def prepare(source: Source, options: Options) -> Prepared:
    """Split the rows into parts, and infer what each column holds."""
    kept, notes = _with_labels(source)
    parts = _split(kept, options)
    check_labels(kept.labels, [repr(name) for name in kept.targets])
    _check_pairs(kept)
    notes += _notes_on_equal_labels(kept, parts, options.metric)
    start = time.monotonic()
    encoder = Encoder.infer(kept.features)
    codes = encoder.codes(kept.features)
    return Prepared(
        source=kept,
        parts=parts,
        encoder=encoder,
        codes=codes,
        encoding_seconds=time.monotonic() - start,
        is_scaled=options.preset is None,
        notes=(*source.notes, *notes, *encoder.notes),
    )


def _split(source: Source, options: Options) -> list[Parts]:
    """Return the folds: in order of time, by group, or at random; a large table has fewer, with few validation rows."""
    common = {"folds": options.folds or FOLDS, "seed": options.seed}
    if source.times is not None:
        return ordered_folds(source.times, folds=common["folds"])
    if source.groups is not None:
        return group_folds(source.groups, **common)
    if source.pairs is not None:  # rows that are compared stay together, several of each group
        return group_folds(parts_of_groups(source.pairs, np.random.default_rng(options.seed)), **common)
    if options.folds is None and options.preset is None and len(source.labels) > LARGE_ROWS:
        return resampled_folds(len(source.labels), seed=options.seed, folds=LARGE_FOLDS, valid=VALIDATION_ROWS)
    return shuffled_folds(len(source.labels), **common)


def _check_pairs(source: Source) -> None:
    """Raise an error if there is nothing to compare within groups, or nothing but."""
    if source.pairs is None:
        return
    name, sizes = source.pairs_within, np.unique(source.pairs, return_counts=True)[1]
    if len(sizes) == 1:
        raise InputError(
            f"pairs_within {name!r} has the same value in all rows, so all rows are compared anyway; leave it out, or name a "
            "column of days, persons or other groups"
        )
    by_group = pd.DataFrame(source.labels).groupby(source.pairs)
    if not (by_group.max() > by_group.min()).to_numpy().any():
        reason = "occurs in one row only" if sizes.max() == 1 else "has rows of one label only"
        raise InputError(
            f"every value of pairs_within {name!r} {reason}, so there is nothing to compare; name a column whose values repeat, "
            "such as a day or a person, or leave it out"
        )


def _with_labels(source: Source) -> tuple[Source, list[str]]:
    """Remove rows that have no label at all; return notes on missing labels."""
    missing = np.isnan(source.labels)
    kept = np.flatnonzero(~missing.all(1))
    notes = []
    if len(kept) < len(missing):
        notes.append(f"{len(missing) - len(kept)} of {len(missing)} rows have no label and were left out.")
    if missing[kept].any():
        notes.append(f"{int(missing[kept].sum())} of {missing[kept].size} labels are missing; training and metrics leave them out.")
    rows = {name: values[kept] for name in ("groups", "times", "pairs") if (values := getattr(source, name)) is not None}
    features = source.features.iloc[kept].reset_index(drop=True)
    return replace(source, features=features, labels=source.labels[kept], **rows), notes


def _notes_on_equal_labels(source: Source, parts: list[Parts], metric: str) -> list[str]:
    """Return a note for each target whose labels are equal in the test rows or in a fold's validation rows.

    It is an error if winners are selected by a metric that is undefined there.
    """
    scored = {"the test rows": parts[0][2]} | {f"the validation rows of fold {k}": part[1] for k, part in enumerate(parts)}
    notes = []
    for name, labels in zip(source.targets, source.labels.T, strict=True):
        where = ", ".join(
            rows_name for rows_name, rows in scored.items() if len(np.unique(labels[rows][~np.isnan(labels[rows])])) < 2
        )
        if not where:
            continue
        what = f"target {name!r} has the same label everywhere, or none, in {where}"
        if metric in _NEEDS_DIFFERENT_LABELS:
            raise InputError(f"{what}, so {metric} is undefined there; use another --seed, fewer --folds, or --metric mae")
        notes.append(f"{what}: correlation and R2 are undefined there.")
    return notes
