"""Tables of anything as tables of numbers: nothing of validation or test rows leaks, and nothing is lost in JSON."""

import datetime
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from pydantic import TypeAdapter

from gar.app.tables import read_table
from gar.encoding import CategoricalColumn, EncodedFolds, Encoder, NumericColumn, encode_folds
from gar.errors import InputError


def mixed() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "size": [1.0, np.nan, 3.0, 8.0],
            "colour": ["red", "blue", None, "red"],
            "ok": [True, False, True, True],
            "when": pd.to_datetime(["1970-01-02", "1970-01-03", "1970-01-11", None]),
            "text date": ["1970-01-02", "1970-01-03T12:00:00", "1970-01-04", "1970-01-05"],
            "count": pd.array([1, None, 3, 4], dtype="Int64"),
            "same": [7, 7, 7, 7],
            "nothing": [None, None, None, None],
        }
    )


def fitted(frame: pd.DataFrame, **options: Any) -> Encoder:
    encoder = Encoder.infer(frame, **options)
    return encoder.fit(encoder.codes(frame), np.arange(float(len(frame)))[:, None])


def column(encoder: Encoder, frame: pd.DataFrame, name: str) -> list[float]:
    return encoder.transform(frame)[:, encoder.feature_names.index(name)].tolist()


def test_every_kind_of_column() -> None:
    frame = mixed()
    encoder = fitted(frame)
    assert column(encoder, frame, "size") == [1, 3, 3, 8]
    assert column(encoder, frame, "size is missing") == [0, 1, 0, 0]
    assert column(encoder, frame, "colour=red") == [1, 0, 0, 1]
    assert column(encoder, frame, "colour=blue") == [0, 1, 0, 0]
    assert column(encoder, frame, "colour is missing") == [0, 0, 1, 0]
    assert column(encoder, frame, "ok") == [1, 0, 1, 1]
    assert column(encoder, frame, "when") == [1, 2, 10, 2]
    assert column(encoder, frame, "text date") == [1, 2.5, 3, 4]
    assert column(encoder, frame, "count") == [1, 3, 3, 4]
    assert not any(name.startswith(("same", "nothing")) for name in encoder.feature_names)


def test_notes_list_what_was_done() -> None:
    assert Encoder.infer(mixed()).notes == (
        "missing numbers filled with the median of the training rows, with an indicator column (3 columns): size, when, count",
        "text one-hot encoded, one column per category (1 column): colour",
        "missing text has an indicator column (1 column): colour",
        "dates converted to days since 1970, and to sine and cosine of season, weekday and time of day where these vary "
        "(2 columns): when, text date",
        "left out, since all rows have the same value (1 column): same",
        "left out, since no row has a value (1 column): nothing",
    )


def test_a_clean_table_of_numbers_is_left_alone() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 0.25, 0.0]})
    encoder = fitted(frame)
    assert encoder.notes == ()
    np.testing.assert_array_equal(encoder.transform(frame), frame.to_numpy())


def test_many_categories_are_target_encoded_and_ids_are_left_out() -> None:
    frame = pd.DataFrame({"town": ["a"] * 5 + ["b"] * 4 + ["c", "d", "e"], "id": [f"no{row}" for row in range(12)], "x": range(12)})
    encoder = fitted(frame, max_categories=2)
    assert encoder.feature_names == ["town mean", "town frequency", "x"]
    assert any("names and ids (1 column): id" in note for note in encoder.notes)
    assert any("many categories target encoded" in note and note.endswith("(1 column): town") for note in encoder.notes)


def test_notes_say_how_to_write_what_looks_like_numbers() -> None:
    frame = pd.DataFrame({"price": [f"${row},000" for row in range(40)], "id": [f"no{row}" for row in range(40)], "x": range(40)})
    notes = Encoder.infer(frame).notes
    assert any("write them as 1234.5, without units, and dates as 2024-05-31 (1 column): price" in note for note in notes)
    assert any("names and ids (1 column): id" in note for note in notes)


def test_values_that_are_new_to_the_encoder() -> None:
    frame = pd.DataFrame({"colour": ["red", "blue", "red"], "x": [1.0, 2.0, 4.0]})
    new = pd.DataFrame({"x": [None, np.inf], "colour": ["green", None], "more": [1, 2]})
    np.testing.assert_array_equal(fitted(frame).transform(new), [[0, 0, 2], [0, 0, 2]])


def test_text_among_numbers_is_missing_if_it_was_so_from_the_start() -> None:
    frame = pd.DataFrame({"x": ["1", "2", "3", "?", "5", "6", "7", "8", "9", "10", " 11 "]})
    encoder = fitted(frame)
    assert column(encoder, frame, "x is missing") == [0, 0, 0, 1, *[0] * 7]
    assert any("text among numbers counts as missing (1 column): x (?)" in note for note in encoder.notes)
    assert encoder.transform(pd.DataFrame({"x": ["?", "2.5"]})).tolist() == [[6.5, 1], [2.5, 0]]
    with pytest.raises(InputError, match="column 'x' holds 'unknown' in row 1; expected numbers"):
        encoder.transform(pd.DataFrame({"x": ["unknown", "2"]}))


@pytest.mark.parametrize("mark", ["?", "-", "--", ".", "*", "N/A", "n/a", "#N/A", "NULL", "none"])
def test_many_marks_of_missing_numbers_leave_them_numbers(mark: str) -> None:
    frame = pd.DataFrame({"x": [mark if row % 3 == 0 else row / 7 for row in range(60)]})
    encoder = fitted(frame)
    assert encoder.feature_names == ["x", "x is missing"]
    assert column(encoder, frame, "x is missing") == [1, 0, 0] * 20
    assert any(f"text among numbers counts as missing (1 column): x ({mark})" in note for note in encoder.notes)


def test_marks_of_missing_numbers_are_known_in_new_tables_too() -> None:
    encoder = fitted(pd.DataFrame({"x": [1.0, 2.0, 6.0]}))
    assert encoder.transform(pd.DataFrame({"x": ["?", "3"]})).tolist() == [[2], [3]]


def test_marks_among_text_are_text() -> None:
    assert fitted(pd.DataFrame({"work": ["own", "?", "state"]})).feature_names == ["work=?", "work=own", "work=state"]
    assert fitted(pd.DataFrame({"work": ["-", "?", "-"]})).feature_names == ["work=-", "work=?"]


def test_true_and_false_beside_numbers_are_one_and_zero() -> None:
    encoder = fitted(pd.DataFrame({"flag": [True, False, True]}))
    assert encoder.transform(pd.DataFrame({"flag": [True, None, "FALSE"]})).tolist() == [[1], [1], [0]]
    with pytest.raises(InputError, match="column 'flag' holds 'yes' in row 2; expected numbers"):
        encoder.transform(pd.DataFrame({"flag": [True, "yes"]}))


def test_numbers_and_text_are_the_same_category() -> None:
    encoder = fitted(pd.DataFrame({"grade": ["K", "1", "2", "K"]}))
    for grades in (["1", "2"], ["1.0", "2.0"], [1, 2], [1.0, 2.0]):
        assert encoder.transform(pd.DataFrame({"grade": grades})).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert encoder.unknown_categories(pd.DataFrame({"grade": [1.0, None, 1.5]})) == (
        "column 'grade' holds a category that is not known to the model in 1 of 3 rows, such as '1.5'",
    )


def test_spellings_that_the_first_table_tells_apart_stay_apart() -> None:
    frame = pd.DataFrame({"version": [*["1", "v2"] * 3, "1.0", "v3"]})
    encoder = fitted(frame)
    assert column(encoder, frame, "version=1") == [1, 0] * 3 + [0, 0]
    assert column(encoder, frame, "version=1.0") == [*[0] * 6, 1, 0]
    assert column(encoder, pd.DataFrame({"version": [1.0, 3.0]}), "version=1") == [1, 0]


def test_infinite_numbers_are_missing() -> None:
    frame = pd.DataFrame({"x": [1.0, np.inf, 3.0, -np.inf]})
    assert fitted(frame).transform(frame).tolist() == [[1, 0], [2, 1], [3, 0], [2, 1]]
    assert any("infinite" in note for note in Encoder.infer(frame).notes)


def test_dates_with_time_zones_python_dates_and_durations() -> None:
    frame = pd.DataFrame(
        {
            "zone": pd.to_datetime(["1970-01-02T01:00+01:00", "1970-01-03T01:00+01:00"]),
            "date": [datetime.date(1970, 1, 2), datetime.date(1970, 1, 5)],
            "took": pd.to_timedelta(["12h", "36h"]),
        }
    )
    encoder = fitted(frame)
    assert [column(encoder, frame, name) for name in frame.columns] == [[1, 2], [1, 4], [0.5, 1.5]]


def test_categories_that_are_numbers_stay_categories() -> None:
    frame = pd.DataFrame({"code": pd.Categorical([3, 1, 3])})
    encoder = fitted(frame)
    assert encoder.feature_names == ["code=1", "code=3"]
    assert encoder.transform(frame).tolist() == [[0, 1], [1, 0], [0, 1]]


def from_json(encoder: Encoder) -> Encoder:
    """Return the encoder after it was written as JSON and read again."""
    return TypeAdapter(Encoder).validate_json(json.dumps(asdict(encoder), allow_nan=False), strict=True)


def test_an_encoder_is_plain_data() -> None:
    frame = mixed()
    encoder = fitted(frame)
    back = from_json(encoder)
    assert back == encoder
    np.testing.assert_array_equal(back.transform(frame), encoder.transform(frame))
    assert {column.kind for column in back.columns} == {"number", "category", "date"}


def test_encoders_without_columns_or_with_one_twice_are_refused() -> None:
    column = NumericColumn(name="size")
    for columns in ((), (column, column), (CategoricalColumn(name="colour", known=()),)):
        with pytest.raises(InputError, match="expected one or more of different names"):
            Encoder(columns)
    with pytest.raises(InputError, match="column 'colour' has a category twice"):
        CategoricalColumn(name="colour", known=("red", "red"))


def test_a_table_that_lacks_columns_is_refused() -> None:
    encoder = fitted(pd.DataFrame({f"c{index}": [1, 2] for index in range(12)}))
    with pytest.raises(InputError, match=r"the table lacks 'c0', 'c1', .* and 3 more; it has 'c11', 'z'"):
        encoder.transform(pd.DataFrame({"c11": [1], "z": [2]}))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": []}), "no rows"),
        (pd.DataFrame({"a": [1, 1]}), "no column can be used .* same value .*: a"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "different names"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", 1]), "names that are text"),
        (pd.DataFrame(index=[0, 1]), "there is none besides the targets"),
    ],
)
def test_tables_that_cannot_be_encoded(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Encoder.infer(frame)


def test_kinds_that_change_between_tables_are_refused() -> None:
    dates, counts = pd.DataFrame({"x": ["2020-01-01", "2020-01-02"]}), pd.DataFrame({"x": [1, 2]})
    with pytest.raises(InputError, match="column 'x' holds '1' in row 1; expected dates such as 2024-05-31"):
        fitted(dates).transform(counts)
    with pytest.raises(InputError, match="column 'x' holds '2020-01-01' in row 1; expected numbers"):
        fitted(counts).transform(dates)


FOLDS = [([0, 1, 2], [3, 4], [5]), ([3, 4], [0, 1, 2], [5])]


def folds_of(frame: pd.DataFrame, y: np.ndarray, count: int = 2) -> EncodedFolds:
    encoder = Encoder.infer(frame)
    return encode_folds(encoder, encoder.codes(frame), y, FOLDS[:count])


def test_each_fold_is_filled_from_its_own_training_rows() -> None:
    frame = pd.DataFrame({"x": [1.0, 3.0, np.nan, 10.0, 30.0, np.nan]})
    x, rows, parts, encoders = folds_of(frame, np.arange(6.0)[:, None])
    assert rows.tolist() == [0, 1, 2, 3, 4, 5, 3, 4, 0, 1, 2, 5]
    assert x[:, 0].tolist() == [1, 3, 2, 10, 30, 2, 10, 30, 1, 3, 20, 20]
    assert [train.tolist() for train, _, _ in parts] == [[0, 1, 2], [6, 7]]
    assert [test.tolist() for _, _, test in parts] == [[5], [11]]
    for (_, _, test), encoder in zip(parts, encoders, strict=True):
        np.testing.assert_array_equal(encoder.transform(frame.iloc[rows[test]]), x[test])


def test_nothing_of_other_rows_leaks_into_a_fold() -> None:
    frame = pd.DataFrame({"x": [1.0, 3.0, np.nan, 10.0, 30.0, np.nan], "y": range(6)})
    changed = frame.copy()
    changed.loc[[3, 4], "x"] = [-1e6, 1e6]
    one, other = (folds_of(table, np.zeros((6, 1)), count=1) for table in (frame, changed))
    train, _, test = one.parts[0]
    np.testing.assert_array_equal(one.x[train], other.x[train])
    np.testing.assert_array_equal(one.x[test], other.x[test])


def test_a_table_without_gaps_is_kept_once() -> None:
    frame = pd.DataFrame({"x": np.arange(6.0), "colour": list("rgbrgb")})
    x, rows, _, encoders = folds_of(frame, np.zeros((6, 1)))
    assert x.shape == (6, 4)
    assert rows.tolist() == list(range(6))
    assert len(encoders) == 2
    assert encoders[0] is encoders[1]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(-1e6, 1e6), st.just(float("inf"))),
            st.one_of(st.none(), st.text(max_size=3)),
            st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=2)),
        ),
        min_size=2,
        max_size=30,
    )
)
def test_whatever_comes_becomes_finite_numbers_or_a_clear_refusal(rows: list[tuple[object, ...]]) -> None:
    frame = pd.DataFrame(rows, columns=["number", "text", "anything"])
    if frame.nunique(dropna=False).max() == 1:
        with pytest.raises(InputError, match="no column can be used"):
            fitted(frame)
        return
    try:
        encoder = Encoder.infer(frame)
    except InputError:
        assume(False)  # nothing but ids, blanks and infinities
    encoder = encoder.fit(encoder.codes(frame), np.zeros((len(frame), 1)))
    x = encoder.transform(frame)
    assert x.shape == (len(frame), len(encoder.feature_names))
    assert np.isfinite(x).all()
    assert from_json(encoder) == encoder


def test_ten_thousand_columns_and_a_hostile_name(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", *(f"c{index}" for index in range(9_999))]
    lines = [",".join(names), *(",".join(str(row * index % 7) for index in range(1, 10_001)) for row in range(1, 4))]
    (tmp_path / "wide.csv").write_text("\n".join(lines))
    frame = read_table(tmp_path / "wide.csv")
    encoder = fitted(frame)
    assert encoder.feature_names[0] == names[0]
    assert len(encoder.feature_names) > 8_000
    assert len(encoder.notes) == 1
    assert len(encoder.notes[0]) < 200
