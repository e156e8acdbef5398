"""Data sets as tables, held against the arrays that the paper's authors published."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gar.app.compare.curves import squared_sine
from gar.errors import InputError
from gar.vision import read_images
from gar_reproduction.data.catalog import describe, names
from gar_reproduction.data.files import available, located
from gar_reproduction.data.loading import drugs_and_features, load


def needs(home: Path, *files: str) -> None:
    missing = [file for file in files if not (home / file).is_file()]
    if missing:
        pytest.skip(f"{missing} not in the data folder")


def standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(0)) / values.std(0)


@pytest.mark.parametrize("name", [name for name in names() if name != "agedb"])
def test_tables_have_the_size_and_the_names_that_are_promised(name: str, data_home: Path) -> None:
    if not available(name, home=data_home):
        pytest.skip(f"{name} is not in the data folder")
    table, entry = load(name, home=data_home), describe(name)
    assert table.x.shape == (entry.rows, entry.features)
    assert table.target_names == entry.targets
    assert len(set(table.feature_names)) == entry.features
    assert np.isfinite(table.x).all()
    assert np.isfinite(table.y).all()
    assert (table.groups is not None) == (entry.groups is not None)
    assert set(entry.quirks) <= set(table.notes)
    assert table.y.shape == (entry.rows, len(entry.targets))


def test_concrete_is_the_authors_table_to_the_digits_they_kept(data_home: Path) -> None:
    needs(data_home, "authors/CCS.npz", "concrete/Concrete_Data.xls")
    theirs = np.load(data_home / "authors" / "CCS.npz")
    x, y = (np.concatenate([theirs[f"te{part}"], theirs[f"tr{part}"]]) for part in "XY")
    table = load("concrete", home=data_home)
    np.testing.assert_allclose(np.sort(standardised(table.x), 0), np.sort(x, 0), atol=0.01)
    np.testing.assert_allclose(np.sort(table.y, 0), np.sort(y, 0), atol=0.006)


def test_wine_is_the_authors_table(data_home: Path) -> None:
    needs(data_home, "authors/wine_quality.npz", "wine_quality/winequality-red.csv")
    theirs = np.load(data_home / "authors" / "wine_quality.npz")
    x, y = (np.concatenate([theirs[f"te{part}"], theirs[f"tr{part}"]]) for part in "XY")
    table = load("wine", home=data_home)
    np.testing.assert_allclose(np.sort(standardised(table.x), 0), np.sort(x, 0), atol=1e-9)
    np.testing.assert_array_equal(np.sort(table.y, 0), np.sort(y, 0))


@pytest.mark.parametrize(("name", "column"), [("parkinson-motor", 0), ("parkinson-total", 1)])
def test_parkinson_is_the_authors_table_column_by_column(name: str, column: int, data_home: Path) -> None:
    needs(data_home, "authors/parkinson.npz", "parkinsons/parkinsons_updrs.data")
    theirs = np.load(data_home / "authors" / "parkinson.npz")
    table = load(name, home=data_home)
    np.testing.assert_allclose(table.x, theirs["X"], atol=5.1e-8)  # they rounded Jitter(Abs)
    np.testing.assert_array_equal(table.y[:, 0], theirs["y"][:, column])
    assert table.feature_names[:2] == ("age", "test_time")
    assert table.feature_names[-1] == "sex"
    assert table.groups is not None
    assert len(np.unique(table.groups)) == 42


@pytest.mark.parametrize(("name", "file"), [("sine", "sine.npz"), ("squared-sine", "sq_sine.npz")])
def test_curves_are_the_authors_curves(name: str, file: str, data_home: Path) -> None:
    needs(data_home, f"authors/{file}")
    theirs, table = np.load(data_home / "authors" / file), load(name)
    np.testing.assert_allclose(table.x, theirs["X"], atol=1e-15)
    np.testing.assert_allclose(table.y, theirs["y"], atol=1e-15)


def test_the_papers_step_gives_the_papers_count() -> None:
    x, y = squared_sine(step=0.1)
    assert len(x) == 20480
    assert np.mean(np.abs(y)) > 0
    np.testing.assert_allclose(y[:, 0] * np.mean(x**2), x[:, 0] ** 2 * np.sin(x[:, 0]))


def test_superconductivity_says_what_its_copy_is(data_home: Path) -> None:
    needs(data_home, "superconductivity/train.csv.gz")
    assert any("recomputed" in note for note in load("superconductivity", home=data_home).notes)


def test_white_wines_are_the_last_of_all_wines(data_home: Path) -> None:
    needs(data_home, "wine_quality/winequality-white.csv")
    every, white = load("wine", home=data_home), load("wine-white", home=data_home)
    np.testing.assert_array_equal(every.x[-4898:], white.x)


def test_a_table_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "superconductivity").mkdir()
    with gzip.open(tmp_path / "superconductivity" / "train.csv.gz", "wt") as file:
        file.write("a,b,critical_temp\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match="gives 2 rows, 2 features and 1 targets; Superconductivity has 21263 rows"):
        load("superconductivity", home=tmp_path)


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "subject#,age,sex,test_time,motor_UPDRS,total_UPDRS,v\n1,old,0,1,2,3,4\n"])
def test_another_table_under_the_name_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "parkinsons").mkdir()
    (tmp_path / "parkinsons" / "parkinsons_updrs.data").write_text(content)
    with pytest.raises(InputError, match=r"is not Parkinson \(total UPDRS\)"):
        load("parkinson-total", home=tmp_path)


def cell_lines() -> pd.DataFrame:
    """As GDSC publishes them: descriptions below the header, other measures beside the responses, a drug twice."""
    rows = {
        "Cell Line": ["Description", "A", "B", "C", "D"],
        "Cosmic_ID": ["", "1", "2", "3", "4"],
        "Tissue": ["", "lung", "skin", "lung", "bone"],
        "KRAS": ["gene", "wt::0<cn<8", "p.G12D::0<cn<8", "wt::0<cn<8", "wt::0<cn<8"],
        "Full_IC_50": ["drug", "1.5", "2.5", "3.5", "4.5"],
        "Full_AUC": ["drug", "0.1", "0.2", "0.3", "0.4"],
        "Gap_IC_50": ["drug", "1", "", "3", "4"],
        "Full_IC_50.1": ["drug", "", "", "", "4"],
    }
    return pd.DataFrame(rows).replace("", None)


def test_drugs_with_few_gaps_and_their_complete_lines_are_kept() -> None:
    features, drugs = drugs_and_features(cell_lines(), max_missing=0.28)
    assert list(drugs.columns) == ["Full", "Gap"]
    assert drugs.to_numpy().tolist() == [[1.5, 1], [3.5, 3], [4.5, 4]]
    assert list(features.columns) == ["Tissue_bone", "Tissue_lung", "KRAS_wt::0<cn<8"]
    assert features.to_numpy().tolist() == [[0, 1, 1], [0, 1, 1], [1, 0, 1]]


def test_the_most_complete_drugs_are_kept() -> None:
    features, drugs = drugs_and_features(cell_lines(), most_complete=1)
    assert list(drugs.columns) == ["Full"]
    assert len(features) == 4


def test_a_table_without_usable_drugs_is_refused() -> None:
    with pytest.raises(InputError, match="no drug has at most 0% gaps"):
        drugs_and_features(cell_lines().drop(columns="Full_IC_50"), max_missing=0.0)


def test_the_list_of_images(data_home: Path) -> None:
    needs(data_home, "agedb/agedb.csv")
    (file,) = located("agedb", home=data_home)
    images = read_images(file, target="age")
    assert len(images.paths) == describe("agedb").rows
    assert {split: len(images.part(split)[1]) for split in ("train", "val", "test")} == {"train": 12208, "val": 2140, "test": 2140}
    assert images.targets.min() >= 0
    with pytest.raises(InputError, match="read_images"):
        load("agedb", home=data_home)
