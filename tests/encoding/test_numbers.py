"""Numbers with gaps, and dates with their cycles."""

import numpy as np
import pandas as pd

from gar.encoding import DateColumn, Encoder, NumericColumn
from gar.encoding.numbers import cycles_of


def test_the_median_counts_a_weight_of_two_as_two_values() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        values, weight = generator.integers(0, 9, 7).astype(float), generator.integers(0, 3, 7)
        if weight.sum():
            column = NumericColumn(name="x").fit(values, np.zeros((7, 1)), weight.astype(float))
            assert column.fill == np.median(np.repeat(values, weight))


def test_gaps_stay_for_trees() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0], "when": pd.to_datetime(["2020-01-01", None, "2021-01-01"])})
    encoder = Encoder.infer(frame, fill=False)
    codes = encoder.codes(frame)
    features = encoder.fit(codes, np.zeros((3, 1))).encode(codes)
    assert not encoder.depends_on_rows(codes)
    assert np.isnan(features[1]).all()
    assert np.isfinite(features[[0, 2]]).all()


def test_cycles_where_dates_vary() -> None:
    start = np.datetime64("2020-01-06")
    days = (start + np.arange(400)).astype("M8[D]").astype(float)
    assert cycles_of(days) == ("year", "week")
    assert cycles_of(days[:30]) == ("week",)
    assert cycles_of(days[::7]) == ("year",)
    assert cycles_of(days[0] + np.arange(5) / 24) == ("day",)
    assert cycles_of(np.array([days[0], np.nan, days[1]])) == ("week",)


def test_a_cycle_ends_where_it_began() -> None:
    column = DateColumn(name="when", cycles=("year", "week", "day"))
    moments = np.array(["2019-12-31T23:59:59", "2020-01-01T00:00:00", "2020-12-31T23:59:59", "2021-07-02T12:00:00"], dtype="M8[us]")
    last, first, leap, middle = column.encode(moments.astype(float) / 86_400e6)[:, 1:3]
    np.testing.assert_allclose(last, first, atol=1e-5)
    np.testing.assert_allclose(leap, first, atol=1e-5)
    np.testing.assert_allclose(middle, -first, atol=1e-5)
    monday, next_monday = column.encode(np.array([4.0, 11.0]))
    np.testing.assert_allclose(monday[3:], next_monday[3:], atol=1e-9)


def test_a_missing_date_is_the_median_without_a_place_in_its_cycles() -> None:
    frame = pd.DataFrame({"when": ["2020-01-01", None, "2020-12-31", "?"]})
    encoder = Encoder.infer(frame)
    encoder = encoder.fit(encoder.codes(frame), np.zeros((4, 1)))
    assert encoder.feature_names == ["when", "when year sin", "when year cos", "when week sin", "when week cos", "when is missing"]
    assert encoder.transform(frame)[1].tolist() == [(18262 + 18627) / 2, 0, 0, 0, 0, 1]
    np.testing.assert_array_equal(encoder.transform(frame)[1], encoder.transform(frame)[3])


def test_days_before_months_in_a_new_table_too() -> None:
    frame = pd.DataFrame({"when": ["31/01/2020", "01/02/2020", "05/02/2020"]})
    encoder = Encoder.infer(frame)
    encoder = encoder.fit(encoder.codes(frame), np.zeros((3, 1)))
    one, other = (encoder.transform(pd.DataFrame({"when": [text]})) for text in ("03/02/2020", "2020-02-03"))
    np.testing.assert_array_equal(one, other)
