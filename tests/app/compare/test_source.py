"""Which columns are features, labels and groups, whatever they are called; and which folds they become."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gar.app.compare import Source, source_of_data_set, source_of_file, source_of_frame
from gar.app.compare.source import prepare
from gar.app.tables import shuffled_folds
from gar.errors import InputError
from tests.app.compare.example import QUICK, diabetes

TWO = replace(QUICK, folds=2)
TRAIN, VALID, TEST = shuffled_folds(60, folds=2, seed=TWO.seed)[0]


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
        ({"targets": [7]}, "target 7 is not text; expected names of columns"),
        ({"targets": 7}, "target 7 is not text; expected names of columns"),
        ({"targets": ["target"], "group": 7}, "group 7 is not text; expected names of columns"),
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


def with_index(first: int) -> pd.DataFrame:
    """With an index that begins so."""
    table = pd.DataFrame({"a": np.sin(np.arange(12)), "y": np.cos(np.arange(12))})
    return table.set_axis(range(first, first + 12))


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_an_index_that_was_written_along_is_left_out(first: int, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{ending}"
    with_index(first).to_csv(path) if ending == "csv" else with_index(first).to_excel(path)
    source = source_of_file(path, targets=["y"])
    assert list(source.features.columns) == ["a"]
    (note,) = source.notes
    assert "was left out: it has no name in the file, and counts the rows as an index does" in note


def test_a_nameless_column_stays_if_it_is_alone_or_no_index(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with_index(0)[["y"]].to_csv(path)
    alone = source_of_file(path, targets=["y"])
    assert list(alone.features.columns) == ["Unnamed: 0"]
    assert "--drop 'Unnamed: 0'" in alone.notes[0]
    with_index(7).to_csv(path)
    other = source_of_file(path, targets=["y"])
    assert (list(other.features.columns), other.notes) == (["Unnamed: 0", "a"], ())


def test_columns_that_count_the_rows_are_reported() -> None:
    table = with_index(0).assign(**{"row no": range(1, 13), "year": range(2000, 2012), "mixed": [1, 0, *range(2, 12)]})
    source = source_of_frame(table, targets=["y"])
    assert list(source.features.columns) == ["a", "row no", "year", "mixed"]
    assert source.notes == (
        "column 'row no' counts the rows and is taken as a feature; if it is none, leave it out: --drop 'row no'",
    )
    assert source_of_frame(table, targets=["y"], drop=["row no"]).notes == ()


def test_decimal_commas_of_a_file_are_noted(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a;y\n1,5;2\n2;3\n")
    assert "decimal commas" in source_of_file(tmp_path / "table.csv", targets=["y"]).notes[0]


def test_delimiter_and_encoding_are_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes("größe:y\n1:2\n3:4\n".encode("utf-16-le"))
    source = source_of_file(tmp_path / "table.csv", targets=["y"], delimiter=":", encoding="utf-16-le")
    assert list(source.features.columns) == ["größe"]


def test_tables_of_polars_are_taken() -> None:
    polars = pytest.importorskip("polars")
    source = source_of_frame(polars.DataFrame({"a": [1.0, 2.5], "y": [3, 4]}), targets=["y"])
    assert source.labels.tolist() == [[3], [4]]
    for other in (polars.Series([1]), {"a": [1]}, None):
        with pytest.raises(InputError, match=r"the table is of type \w+; expected a DataFrame of pandas"):
            source_of_frame(other, targets=["y"])


def test_a_name_alone_is_one_column() -> None:
    source = source_of_frame(diabetes(), targets="target", drop="clinic, double")
    assert source.targets == ("target",)
    assert not {"clinic", "double"} & set(source.features.columns)


def test_repeated_names_are_reported() -> None:
    table = pd.DataFrame([[1, 2, 3, 4]] * 4, columns=["a", "y", "y", "g"])
    with pytest.raises(InputError, match="2 columns are called 'y'; rename all but one"):
        source_of_frame(table, targets=["y"])


def test_rows_without_a_group_are_reported() -> None:
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


def labelled(**labels: np.ndarray) -> Source:
    return source_of_frame(pd.DataFrame({"x": np.sin(np.arange(60)), **labels}), targets=list(labels))


def only_in(rows: np.ndarray) -> np.ndarray:
    """Labels that differ in these rows alone."""
    labels = np.zeros(60)
    labels[rows] = np.arange(len(rows))
    return labels


def test_different_labels_need_no_note() -> None:
    assert prepare(labelled(y=np.cos(np.arange(60))), replace(TWO, metric="pearson")).notes == ()


def test_equal_labels_of_test_rows_are_reported() -> None:
    table = labelled(y=only_in(np.concatenate([TRAIN, VALID])), other=np.cos(np.arange(60)))
    reason = "target 'y' has the same label everywhere, or none, in the test rows"
    assert prepare(table, TWO).notes == (f"{reason}: correlation and R2 are undefined there.",)
    for metric in ("pearson", "spearman", "r2"):
        with pytest.raises(InputError, match=f"{reason}, so {metric} is undefined there; use another --seed, .* or --metric mae"):
            prepare(table, replace(TWO, metric=metric))


def test_absent_labels_of_validation_rows_are_reported() -> None:
    absent = np.cos(np.arange(60))
    absent[VALID] = np.nan
    (missing, note) = prepare(labelled(y=absent, other=np.cos(np.arange(60))), TWO).notes
    assert "labels are missing" in missing
    assert note.startswith("target 'y' has the same label everywhere, or none, in the validation rows of fold 0: ")


def test_all_such_rows_are_named_at_once() -> None:
    (note,) = prepare(labelled(y=only_in(TRAIN)), TWO).notes
    assert "in the test rows, the validation rows of fold 0: " in note
