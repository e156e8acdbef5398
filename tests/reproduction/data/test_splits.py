"""No row in two parts, no group in two parts, and the very arrays of the paper's authors."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from gar.app.tables import shuffled_folds
from gar.errors import InputError
from gar.stack import Scaling, StackData
from gar_reproduction.data.loading import DataTable, load
from gar_reproduction.data.splits import (
    authors_split,
    group_split,
    half_split,
    has_authors_split,
    paper_order,
    paper_split,
)


def diabetes() -> DataTable:
    return load("diabetes")


def people(count: int = 20, each: int = 7) -> DataTable:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(count * each, 3))
    return DataTable(
        name="people",
        title="People",
        x=x,
        y=x[:, :1],
        feature_names=("a", "b", "c"),
        target_names=("y",),
        groups=np.repeat(np.arange(count), each),
    )


def parts_of(data: StackData) -> list[list[set[int]]]:
    return [[set(part.tolist()) for part in (fold.train, fold.valid, fold.test)] for fold in data.folds]


def test_the_papers_split_is_test_first_then_folds_in_order() -> None:
    data = paper_split(diabetes())
    rest = set(range(88, 442))
    valid: set[int] = set()
    for train, part, test in parts_of(data):
        assert test == set(range(88))
        assert train | part == rest
        assert not train & part
        assert not valid & part
        valid |= part
        assert sorted(part) == list(range(min(part), max(part) + 1))
    assert valid == rest


def test_rows_are_in_the_order_of_the_seed() -> None:
    table = diabetes()
    data = paper_split(table, seed=3, features="none")
    np.testing.assert_array_equal(data.x, table.x[paper_order(442, seed=3)])
    np.testing.assert_array_equal(data.y, table.y[paper_order(442, seed=3)])
    assert not np.array_equal(paper_order(442, seed=3), paper_order(442, seed=4))


def test_folds_of_a_table_in_its_own_order_are_the_same_rows() -> None:
    table = diabetes()
    data = paper_split(table, seed=3, features="none")
    for fold, parts in zip(data.folds, shuffled_folds(442, seed=3), strict=True):
        for name, rows in zip(("train", "valid", "test"), parts, strict=True):
            np.testing.assert_array_equal(table.x[rows], data.x[fold.of_split(name)])


def test_features_are_standardised_over_the_whole_table_or_the_training_rows() -> None:
    table = load("diabetes")
    whole = paper_split(table)
    torch.testing.assert_close(whole.x.mean(0), torch.zeros(10, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(whole.x.std(0, correction=0), torch.ones(10, dtype=torch.float64))
    assert whole.folds[0].features is None
    train = paper_split(table, features="train", labels="train").folds[0]
    rows = table.x[paper_order(442)][train.train]
    assert isinstance(train.features, Scaling)
    assert train.labels is not None
    np.testing.assert_allclose(train.features.center, rows.mean(0))
    np.testing.assert_allclose(train.labels.center, table.y[paper_order(442)][train.train].mean(0))


def test_a_constant_feature_stays_finite() -> None:
    table = people()
    flat = DataTable(name="flat", title="", x=table.x * [1, 0, 1], y=table.y, feature_names=("a", "b", "c"), target_names=("y",))
    assert bool((paper_split(flat).x[:, 1] == 0).all())


def test_no_person_is_in_two_parts() -> None:
    table = people()
    data = group_split(table, seed=1)
    groups = table.groups
    assert groups is not None
    tested = {int(groups[row]) for row in parts_of(data)[0][2]}
    assert len(tested) == 4
    validated: set[int] = set()
    for parts in parts_of(data):
        members = [{int(groups[row]) for row in part} for part in parts]
        assert members[0] | members[1] | members[2] == set(range(20))
        assert sum(map(len, members)) == 20
        assert members[2] == tested
        assert sum(map(len, parts)) == len(table.x)
        validated |= members[1]
    assert validated | tested == set(range(20))


def test_a_split_by_groups_takes_statistics_of_training_rows() -> None:
    table = people()
    fold = group_split(table).folds[0]
    assert isinstance(fold.features, Scaling)
    np.testing.assert_allclose(fold.features.center, table.x[fold.train].mean(0))


def test_curves_are_halved() -> None:
    table = load("sine")
    data = half_split(table, seed=5)
    (train, valid, test), *more = parts_of(data)
    assert not more
    assert (len(train), len(test)) == (315, 314)
    assert not train & test
    assert valid == test
    np.testing.assert_array_equal(data.x, table.x)


@pytest.mark.parametrize(
    ("name", "rows", "tested"),
    [("concrete", 1030, 206), ("wine", 6497, 1299), ("parkinson-total", 5875, 1175), ("parkinson-motor", 5875, 1175)],
)
def test_the_authors_arrays(name: str, rows: int, tested: int, data_home: Path) -> None:
    if not has_authors_split(name, home=data_home):
        pytest.skip(f"the authors' file for {name} is not in the data folder")
    data, table = authors_split(name, home=data_home), load(name, home=data_home)
    assert data.x.shape == (rows, table.x.shape[1])
    assert data.x.dtype == data.y.dtype == torch.float64
    for train, valid, test in parts_of(data):
        assert test == set(range(tested))
        assert len(train) + len(valid) == rows - tested
        assert len(train | valid | test) == rows
    assert data.folds[0].valid[0] == tested  # unshuffled: the first fold validates on the first rows behind the test set
    np.testing.assert_allclose(np.sort(data.y, 0), np.sort(table.y, 0), atol=0.006)
    np.testing.assert_allclose(data.x.std(0, correction=0), 1.0)
    assert authors_split(name, home=data_home, labels="train").folds[0].labels is not None


@pytest.mark.parametrize("name", ["concrete", "wine"])
def test_the_authors_order_is_that_of_their_arrays(name: str, data_home: Path) -> None:
    if not has_authors_split(name, home=data_home):
        pytest.skip(f"the authors' file for {name} is not in the data folder")
    theirs, drawn = authors_split(name, home=data_home), paper_split(load(name, home=data_home), seed="authors")
    np.testing.assert_allclose(drawn.y, theirs.y, atol=0.006)
    np.testing.assert_allclose(drawn.x, theirs.x, atol=0.01)


@pytest.mark.parametrize(("name", "file"), [("sine", "sine.npz"), ("squared-sine", "sq_sine.npz")])
def test_the_authors_halves(name: str, file: str, data_home: Path) -> None:
    if not has_authors_split(name, home=data_home):
        pytest.skip(f"the authors' file for {name} is not in the data folder")
    (train, valid, test), *_ = parts_of(authors_split(name, home=data_home))
    ids = np.load(data_home / "authors" / file)["ids"]
    assert test == valid == set(ids[: len(ids) // 2].tolist())
    assert train | test == set(range(len(ids)))


def test_other_arrays_under_the_authors_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "authors").mkdir()
    np.savez(tmp_path / "authors" / "sine.npz", X=np.zeros((2, 1)))
    (tmp_path / "authors" / "CCS.npz").write_text("nothing")
    (tmp_path / "authors" / "wine_quality.npz").write_text("")
    for name in ("sine", "concrete", "wine"):
        with pytest.raises(InputError, match="does not hold the authors' arrays"):
            authors_split(name, home=tmp_path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda table: paper_split(table, test=1.5), "test=1.5; expected a share between 0 and 1"),
        (lambda table: paper_split(table, folds=1), "folds=1"),
        (lambda table: paper_split(table, seed=cast("Any", "author")), "seed='author' is unknown"),
        (lambda table: paper_split(table, folds=500), "too few for a test part"),
        (lambda table: paper_split(table, features=cast("Any", "train rows")), "features='train rows' is unknown"),
        (lambda table: paper_split(table, labels=cast("Any", "yes")), "labels='yes' is unknown"),
        (group_split, "diabetes has no groups"),
        (lambda table: authors_split("superconductivity"), "authors' split of 'superconductivity' is not known"),
        (lambda table: authors_split("concrete", home="nowhere"), "not at nowhere/authors/CCS.npz"),
    ],
)
def test_what_cannot_be_split_is_an_error(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(diabetes())  # type: ignore[operator]


def test_a_table_with_wrong_shapes_is_refused() -> None:
    with pytest.raises(InputError, match=r"x has shape \(3, 2\), y \(2, 1\); expected \(3, 1\) and \(3, 1\)"):
        DataTable(name="t", title="t", x=np.zeros((3, 2)), y=np.zeros((2, 1)), feature_names=("a",), target_names=("y",))
    with pytest.raises(InputError, match="groups has shape"):
        DataTable(
            name="t",
            title="",
            x=np.zeros((3, 1)),
            y=np.zeros((3, 1)),
            feature_names=("a",),
            target_names=("y",),
            groups=np.zeros(2),
        )
