"""Warnings on a table: what makes scores look better than they are, or say nothing."""

import re
import shlex
from collections.abc import Iterator

import numpy as np
from scipy.stats import spearmanr

from gar.app.compare.source import Prepared
from gar.encoding import DateColumn, NumericColumn
from gar.encoding.encoder import sorted_distinct

_FEW_ROWS = 100
"""Rows below which differences between losses are mostly chance."""

_SAMPLE = 10_000
_GIVEN_AWAY = 0.999
"""A column whose rank correlation with the label is above this gives the label away."""

_REPEATED = 0.01
"""The share of test rows that are in the training rows, too, from which it is reported."""

_LEAST_GROUPS, _MOST_GROUPS_SHARE = 5, 0.5
_GROUP_NAME = re.compile(
    r"(^|[_\s.-])(id|idcode|uid|code|subject|patient|person|people|student|pupil|user|customer|client|player|animal|device|sensor|"
    r"station|site|basin|household|school|hospital|clinic|store|shop|seller|company|firm|tailnum|vin|sku|product)s?($|[_\s.-])"
    r"|(^|[a-z])(Id|ID)$|id$",
    re.IGNORECASE,
)
_TIME_NAME = re.compile(r"^(time|date|datetime|timestamp|year|week|month)$", re.IGNORECASE)


def warnings_on(prepared: Prepared) -> tuple[str, ...]:
    """Return one sentence for everything that a reader should know before any score."""
    found = [*_few_rows(prepared), *_given_away(prepared), *_repeated_rows(prepared)]
    if prepared.source.groups is None and prepared.source.times is None:
        found += [*_groups(prepared), *_times(prepared)]
    found += [f"{note[0].upper()}{note[1:]}" for note in prepared.notes if "left out" in note and "column" in note]
    return tuple(found)


def _few_rows(prepared: Prepared) -> Iterator[str]:
    rows = len(prepared.source.labels)
    if rows < _FEW_ROWS:
        yield (
            f"The table has only {rows} rows, {len(prepared.test)} of them for the test: differences between methods are mostly "
            "chance."
        )


def _given_away(prepared: Prepared) -> Iterator[str]:
    """Report columns that order the rows as a label does."""
    rows, categorical = np.random.default_rng(0).permutation(len(prepared.codes))[:_SAMPLE], prepared.encoder.categorical_columns
    for name, labels in zip(prepared.source.targets, prepared.source.labels[rows].T, strict=True):
        for column, codes in zip(prepared.encoder.columns, prepared.codes[rows].T, strict=True):
            known = np.isfinite(codes) & np.isfinite(labels)
            if column in categorical or len(np.unique(codes[known])) < 5 or known.sum() < 10:
                continue
            if abs(spearmanr(codes[known], labels[known]).statistic) > _GIVEN_AWAY:
                yield (
                    f"Column {column.name!r} gives {name!r} away: it puts the rows in the same order. If it is not known when you "
                    f"predict, leave it out: --drop {shlex.quote(column.name)}"
                )


def _repeated_rows(prepared: Prepared) -> Iterator[str]:
    """Report test rows that equal a training row in all features and labels."""
    columns = [*prepared.codes.T, *prepared.source.labels.T]
    order, is_new = sorted_distinct(columns)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(is_new)
    rest = np.setdiff1d(np.arange(len(order)), prepared.test)
    count = int(np.isin(number[prepared.test], number[rest]).sum())
    if count > _REPEATED * len(prepared.test):
        yield (
            f"{count:,} of {len(prepared.test):,} test rows stand in the training rows, too, with the same label: scores are "
            "better than they will be on new rows. Remove duplicate rows."
        )


def _groups(prepared: Prepared) -> Iterator[str]:
    """Report columns that look like persons or other groups, whose rows should not be in two parts."""
    rows = len(prepared.codes)
    for column, codes in zip(prepared.encoder.columns, prepared.codes.T, strict=True):
        known = codes[np.isfinite(codes)]
        count = len(np.unique(known))
        if isinstance(column, DateColumn) or not _LEAST_GROUPS <= count <= _MOST_GROUPS_SHARE * rows:
            continue
        if isinstance(column, NumericColumn) and not np.array_equal(known, known.round()):
            continue
        if _GROUP_NAME.search(column.name):
            yield (
                f"Column {column.name!r} looks like persons, places or other groups ({count:,} of them). If you will predict for "
                f"new ones, rows of one must not be in training and test alike: --group {shlex.quote(column.name)}"
            )


def _times(prepared: Prepared) -> Iterator[str]:
    """Report a column of time: rows that are near in time are alike."""
    for column, codes in zip(prepared.encoder.columns, prepared.codes.T, strict=True):
        is_date = isinstance(column, DateColumn)
        if (is_date or _TIME_NAME.match(column.name)) and len(np.unique(codes[np.isfinite(codes)])) >= _LEAST_GROUPS:
            yield (
                f"Column {column.name!r} looks like time, and rows were split at random. If you will predict later rows, test on "
                f"the last ones: --time {shlex.quote(column.name)}"
            )
            return
