"""Rows that cannot judge a model are told before anything is trained."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gar.app.compare import Source, source_of_frame
from gar.app.compare.preparing import prepare
from gar.app.tables import shuffled_folds
from gar.errors import InputError
from tests.app.compare.tables import QUICK

TWO = replace(QUICK, folds=2)
TRAIN, VALID, TEST = shuffled_folds(60, folds=2, seed=TWO.seed)[0]


def source(**labels: np.ndarray) -> Source:
    return source_of_frame(pd.DataFrame({"x": np.sin(np.arange(60)), **labels}), targets=list(labels))


def only_in(rows: np.ndarray) -> np.ndarray:
    """Labels that differ in these rows alone."""
    labels = np.zeros(60)
    labels[rows] = np.arange(len(rows))
    return labels


def test_different_labels_need_no_note() -> None:
    assert prepare(source(y=np.cos(np.arange(60))), replace(TWO, metric="pearson")).notes == ()


def test_equal_labels_of_test_rows_are_told() -> None:
    table = source(y=only_in(np.concatenate([TRAIN, VALID])), other=np.cos(np.arange(60)))
    said = "target 'y' has the same label everywhere, or none, in the test rows"
    assert prepare(table, TWO).notes == (f"{said}: correlation and R2 say nothing there.",)
    for metric in ("pearson", "spearman", "r2"):
        with pytest.raises(InputError, match=f"{said}, so {metric} cannot judge there; use another --seed, .* or --metric mae"):
            prepare(table, replace(TWO, metric=metric))


def test_absent_labels_of_validation_rows_are_told() -> None:
    absent = np.cos(np.arange(60))
    absent[VALID] = np.nan
    (missing, note) = prepare(source(y=absent, other=np.cos(np.arange(60))), TWO).notes
    assert "labels are missing" in missing
    assert note.startswith("target 'y' has the same label everywhere, or none, in the validation rows of fold 0: ")


def test_all_such_rows_are_named_at_once() -> None:
    (note,) = prepare(source(y=only_in(TRAIN)), TWO).notes
    assert "in the test rows, the validation rows of fold 0: " in note
