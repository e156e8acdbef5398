"""Cells as numbers, days and words; frames of pandas and polars give the same ones."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from gar.encoding import Columns, Encoder, columns_of
from gar.encoding.cells import Cells, date_order, text_cells
from gar.errors import InputError

NOON = datetime.datetime(2020, 1, 1, 12)
DATA = {
    "integer": [1, None, 3],
    "float": [0.5, None, 2.5],
    "truth": [True, False, None],
    "word": ["red", None, "blue"],
    "day": [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 3)],
    "moment": [NOON, None, NOON + datetime.timedelta(hours=1)],
    "took": [datetime.timedelta(hours=12), None, datetime.timedelta(days=2)],
}
TYPES = {"integer": "Int64", "truth": "boolean", "word": "str", "moment": "datetime64[ns]", "took": "timedelta64[ns]"}


def of_pandas() -> pd.DataFrame:
    frame = pd.DataFrame({name: pd.Series(values, dtype=TYPES.get(name)) for name, values in DATA.items()})
    return frame.assign(category=pd.Categorical(["b", None, "a"]))


def of_polars() -> pl.DataFrame:
    return pl.DataFrame(DATA).with_columns(category=pl.Series(["b", None, "a"], dtype=pl.Categorical))


def assert_equal(one: Columns, other: Columns) -> None:
    assert list(one) == list(other)
    for name, cells in one.items():
        assert cells.is_category == other[name].is_category, name
        np.testing.assert_array_equal(cells.floats(), other[name].floats(), err_msg=name)
        np.testing.assert_array_equal(cells.days(), other[name].days(), err_msg=name)
        if cells.words is not None and other[name].words is not None:  # dates of Python are text in pandas
            assert cells.words == other[name].words, name


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


def test_polars_is_as_pandas() -> None:
    assert_equal(columns_of(of_pandas()), columns_of(of_polars()))
    assert columns_of(of_pandas())["took"].floats()[0] == 0.5
    assert Encoder.infer(of_pandas()) == Encoder.infer(of_polars())


def test_types_of_arrow_are_as_those_of_numpy() -> None:
    frame = of_pandas().drop(columns="category")
    assert_equal(columns_of(frame), columns_of(frame.convert_dtypes(dtype_backend="pyarrow")))


def test_time_zones_are_utc() -> None:
    moments = pd.Series([NOON, NOON]).dt.tz_localize("Asia/Tokyo")
    for frame in (pd.DataFrame({"at": moments}), pl.DataFrame({"at": moments.to_list()})):
        assert (columns_of(frame)["at"].days() % 1).tolist() == [0.125, 0.125]


def test_other_types_of_polars() -> None:
    frame = pl.DataFrame({"amount": pl.Series(["1.50", None], dtype=pl.String).cast(pl.Decimal(10, 2)), "list": [[1], [2, 3]]})
    columns = columns_of(frame.with_columns(level=pl.Series(["low", "high"], dtype=pl.Enum(["low", "high"]))))
    np.testing.assert_array_equal(columns["amount"].floats(), [1.5, np.nan])
    assert columns["list"].words == ["[1]", "[2, 3]"]
    assert columns["level"].is_category


def test_arrays_and_columns_without_names_are_numbered() -> None:
    for table in (np.eye(2), pd.DataFrame(np.eye(2))):
        assert list(columns_of(table)) == ["x0", "x1"]


def test_names_that_are_not_unique_are_named() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"])
    with pytest.raises(InputError, match="several columns are called 'a'; columns must have different names"):
        columns_of(frame)
