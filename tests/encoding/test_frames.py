"""Frames of pandas and polars give the same columns."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from gar.encoding import Columns, Encoder, columns_of
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
