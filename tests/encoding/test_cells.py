"""Cells as numbers, days and words."""

import datetime
from decimal import Decimal

import numpy as np
import pytest

from gar.encoding.cells import Cells, date_order, text_cells


def test_text_is_stripped_and_blanks_are_missing() -> None:
    cells = text_cells([" a", "a", "", "  ", None, float("nan"), "b"])
    assert cells.words == ["a", "b"]
    assert cells.values.tolist() == [0, 0, -1, -1, -1, -1, 1]


def test_cells_of_mixed_types_are_text() -> None:
    cells = text_cells([1, True, "1", Decimal("1.5"), [1, 2], datetime.date(1970, 1, 2), np.nan])
    assert cells.words == ["1", "True", "1.5", "[1, 2]", "1970-01-02"]
    assert cells.values.tolist() == [0, 1, 0, 2, 3, 4, -1]


def test_words_as_numbers() -> None:
    floats = text_cells(["1e3", "-2.5", "TRUE", "false", "1_000", "x", None]).floats()
    np.testing.assert_array_equal(floats, [1000, -2.5, 1, 0, np.nan, np.nan, np.nan])


def test_numbers_as_text_are_written_alike_whatever_their_type() -> None:
    for values in (np.array([3, 1]), np.array([3.0, 1.0]), np.array([3.0, 1.0], dtype=np.float32)):
        assert Cells(values).as_text().words == ["1", "3"]
    with_gap = Cells(np.array([2.5, np.nan, 2.5])).as_text()
    assert (with_gap.words, with_gap.values.tolist()) == (["2.5"], [0, -1, 0])


@pytest.mark.parametrize(
    ("words", "order"),
    [
        (["2024-05-31", "2024-06-01T12:30", "2024-06-01 12:30:15+02:00", "2024/6/1", "2024-06"], "ymd"),
        (["31/05/2024", "1/6/2024 10:00"], "dmy"),
        (["31.05.2024", "01.06.2024"], "dmy"),
        (["5/31/2024", "6/1/2024"], "mdy"),
        (["1/2/2024", "3/4/2024"], None),  # either
        (["31/05/2024", "5/31/2024"], None),
        (["2024-13-01"], None),
        (["2024-05-31", "soon"], None),
        (["12:30"], None),
    ],
)
def test_orders_of_dates(words: list[str], order: str | None) -> None:
    assert date_order(words) == order


def test_days_since_1970() -> None:
    days = text_cells(["1970-01-02", "1970-01-02T06:00", "1970-01-02T01:00+01:00", "02/01/1970", "soon"]).days("dmy")
    np.testing.assert_array_equal(days, [1, 1.25, 1, 1, np.nan])
    times = np.array(["1970-01-02", "1969-12-31T12:00", "NaT"], dtype="M8[s]")
    np.testing.assert_array_equal(Cells(times).days(), [1, -0.5, np.nan])
    assert np.isnan(Cells(np.array([1.0])).days()).all()
