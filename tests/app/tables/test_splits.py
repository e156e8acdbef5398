"""Rows are split into train, validation and test parts: no row and no group is in two of them."""

import numpy as np
import pytest

from gar.app.tables import group_folds, shuffled_folds
from gar.app.tables.splits import consecutive_folds
from gar.errors import InputError

GROUPS = np.repeat(np.arange(20), 7)


def test_shuffled_folds_partition_all_rows() -> None:
    folds = shuffled_folds(442, seed=3)
    tested = set(folds[0][2].tolist())
    validated: list[int] = []
    for train, valid, test in folds:
        assert set(test.tolist()) == tested
        assert sorted([*train, *valid, *test]) == list(range(442))
        validated += valid.tolist()
    assert len(tested) == 88
    assert sorted([*validated, *tested]) == list(range(442))


def test_the_seed_decides_the_shuffle() -> None:
    one, same, other = (shuffled_folds(442, seed=seed)[0][2] for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_shuffled_folds_are_consecutive_folds_of_permuted_rows() -> None:
    order = np.random.default_rng(3).permutation(442)
    for shuffled, consecutive in zip(shuffled_folds(442, seed=3), consecutive_folds(442, 88, 5), strict=True):
        for rows, indices in zip(shuffled, consecutive, strict=True):
            np.testing.assert_array_equal(rows, order[indices])
            assert indices.tolist() == sorted(indices)
        np.testing.assert_array_equal(consecutive[2], np.arange(88))
        np.testing.assert_array_equal(consecutive[1], np.arange(consecutive[1][0], consecutive[1][-1] + 1))


def test_no_group_is_in_two_parts() -> None:
    folds = group_folds(GROUPS, seed=1)
    tested = set(GROUPS[folds[0][2]].tolist())
    assert len(tested) == 4
    validated: list[int] = []
    for fold in folds:
        members = [set(GROUPS[part].tolist()) for part in fold]
        assert sorted(group for part in members for group in part) == list(range(20))
        assert members[2] == tested
        assert sorted(row for part in fold for row in part) == list(range(len(GROUPS)))
        validated += members[1]
    assert sorted([*validated, *tested]) == list(range(20))


def test_groups_of_text_are_split_too() -> None:
    names = np.array([f"person {group}" for group in GROUPS])
    for fold in group_folds(names):
        assert not set(names[fold[0]]) & set(names[fold[1]])


@pytest.mark.parametrize(
    "split", [lambda **options: shuffled_folds(140, **options), lambda **options: group_folds(GROUPS, **options)]
)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": 1.5}, "test=1.5; expected a share between 0 and 1"),
        ({"test": 0}, "test=0; expected a share between 0 and 1"),
        ({"folds": 1}, "folds=1; use fewer folds, 2 at least"),
        ({"folds": 500}, "too few for a test part and folds=500"),
    ],
)
def test_impossible_splits_are_refused(split: object, options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(**options)  # type: ignore[operator]
