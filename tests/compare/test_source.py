"""Which columns are what, whatever they are called."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gar.compare import source_of_data_set, source_of_frame
from gar.errors import InputError
from tests.compare.tables import diabetes


def frame(*names: str) -> pd.DataFrame:
    return pd.DataFrame(np.arange(12.0).reshape(-1, 1) + np.arange(len(names)), columns=list(names))


def test_commas_separate_targets_unless_a_column_is_called_so() -> None:
    assert source_of_frame(frame("a", "b", "x"), targets=["a, b"]).targets == ("a", "b")
    assert source_of_frame(frame("a,b", "x"), targets=["a,b"]).targets == ("a,b",)
    assert source_of_frame(frame("a", "b", "x"), targets=["b", "a", "b"]).targets == ("b", "a")


def test_groups_and_dropped_columns_are_no_features() -> None:
    source = source_of_frame(diabetes(), targets=["target"], group="clinic", drop=["double,age"])
    assert not {"target", "clinic", "double", "age"} & set(source.features.columns)
    assert source.groups is not None
    assert np.array_equal(np.unique(source.groups, return_counts=True)[1], diabetes()["clinic"].value_counts(sort=False))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"targets": ["tarGet"]}, "target 'tarGet' is not a column of the table; did you mean 'target'"),
        ({"targets": ["zzz"]}, "there are the columns 'age', 'sex', .* and 5 more"),
        ({"targets": []}, "no target is given"),
        ({"targets": ["target"], "group": "nobody"}, "group 'nobody' is not a column"),
        ({"targets": ["target"], "group": "target"}, "'target' is a target and cannot"),
        ({"targets": ["target"], "drop": ["target"]}, "'target' is a target and cannot"),
        ({"targets": ["sex"]}, "target 'sex' holds 'man' in row 1|target 'sex' holds 'woman'"),
    ],
)
def test_wrong_columns_are_explained(columns: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        source_of_frame(diabetes(), **columns)  # type: ignore[arg-type]


def test_a_table_of_targets_alone_has_nothing_to_predict_from() -> None:
    with pytest.raises(InputError, match="no column left to predict from"):
        source_of_frame(frame("a", "b"), targets=["a,b"])


def test_rows_without_a_group_are_told() -> None:
    table = diabetes().assign(clinic=diabetes()["clinic"].where(diabetes()["clinic"] > 0))
    with pytest.raises(InputError, match="empty in 10 rows"):
        source_of_frame(table, targets=["target"], group="clinic")


def test_a_data_set_has_no_groups_that_it_does_not_have() -> None:
    with pytest.raises(InputError, match="diabetes has no groups"):
        source_of_data_set("diabetes", group="subject")


def test_parkinson_has_its_subjects(data_home: Path) -> None:
    source = source_of_data_set("parkinson-total", group="subject")
    assert source.groups is not None
    assert len(set(source.groups.tolist())) == 42
    assert source.features.shape == (5875, 19)
    assert source.notes
    with pytest.raises(InputError, match="only the group 'subject'"):
        source_of_data_set("parkinson-total", group="person")
