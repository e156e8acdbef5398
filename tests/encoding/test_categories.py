"""Target encoding: shrunk means, by labels of other rows."""

import numpy as np
import pandas as pd
import pytest

from gar.encoding import Encoder, TargetColumn, encode_folds
from gar.errors import InputError


def made(rows: int, categories: int, *, effect: float, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows of random categories, and labels of which a category's effect is a part."""
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, categories, rows)
    labels = effect * generator.normal(size=categories)[drawn] + generator.normal(size=rows)
    return pd.DataFrame({"id": [f"c{number}" for number in drawn]}), labels[:, None]


def correlation(feature: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(feature, y[:, 0])[0, 1]) if np.ptp(feature) > 0 else 0.0


@pytest.mark.parametrize("seed", range(5))
def test_random_categories_say_nothing_about_labels(seed: int) -> None:
    """Not even in training rows, where means of their own labels would correlate by about 0.5."""
    frame, y = made(4000, 1000, effect=0.0, seed=seed)
    encoder = Encoder.infer(frame)
    order = np.random.default_rng(seed).permutation(4000)
    x, _, parts, _ = encode_folds(encoder, encoder.codes(frame), y, [(order[:3000], order[3000:])])
    for part, rows in zip(parts[0], (order[:3000], order[3000:]), strict=True):
        assert abs(correlation(x[part, 0], y[rows])) < 0.09


def test_categories_that_matter_are_found() -> None:
    frame, y = made(4000, 400, effect=1.0)
    encoder = Encoder.infer(frame)
    x, rows, parts, _ = encode_folds(encoder, encoder.codes(frame), y, [(np.arange(3000), np.arange(3000, 4000))])
    train, valid = (correlation(x[part, 0], y[rows[part]]) for part in parts[0])
    assert train > 0.5
    assert abs(train - valid) < 0.1


def test_means_of_few_rows_are_shrunk_more() -> None:
    frame, y = made(2000, 80, effect=1.0)
    frame.loc[0, "id"], y[0] = "alone", 5.0
    encoder = Encoder.infer(frame)
    encoder = encoder.fit(encoder.codes(frame), y)
    alone, usual, unseen, missing = encoder.transform(pd.DataFrame({"id": ["alone", "c1", "new", None]}))[:, 0]
    members = y[frame["id"] == "c1"]
    assert abs(usual - members.mean()) < 0.2 * abs(members.mean() - y.mean())
    assert 0.3 < (alone - y.mean()) / (5 - y.mean()) < 0.7
    assert unseen == missing == pytest.approx(y.mean())


def test_a_weight_of_two_equals_two_rows() -> None:
    frame, y = made(600, 70, effect=0.5)
    frame["size"] = np.random.default_rng(1).normal(size=600)
    y = np.hstack([y, -y])
    y[::7, 1] = np.nan
    weight = np.random.default_rng(2).integers(1, 4, 600)
    encoder, twice = Encoder.infer(frame), np.repeat(np.arange(600), weight)
    codes = encoder.codes(frame)
    fitted, features = encoder.fit_encode(codes, y, weight.astype(float))
    other, copies = encoder.fit_encode(codes[twice], y[twice])
    np.testing.assert_allclose(fitted.encode(codes), other.encode(codes), rtol=1e-9)
    np.testing.assert_allclose(features[twice], copies, rtol=1e-9)


def test_the_order_of_rows_does_not_matter() -> None:
    frame, y = made(300, 70, effect=0.5)
    encoder, order = Encoder.infer(frame), np.random.default_rng(1).permutation(300)
    codes = encoder.codes(frame)
    _, features = encoder.fit_encode(codes, y)
    _, shuffled = encoder.fit_encode(codes[order], y[order])
    np.testing.assert_allclose(features[order], shuffled, rtol=1e-9)


def test_weights_below_one_are_shares() -> None:
    frame, y = made(600, 70, effect=1.0)
    encoder = Encoder.infer(frame)
    codes = encoder.codes(frame)
    plain, light = (encoder.fit(codes, y, np.full(600, weight)).encode(codes) for weight in (1.0, 1e-3))
    np.testing.assert_allclose(plain, light, rtol=1e-9)


def test_missing_values_are_a_category() -> None:
    frame, y = made(900, 70, effect=1.0)
    frame.loc[:99, "id"] = None
    y[:100] += 50.0
    encoder = Encoder.infer(frame)
    encoder = encoder.fit(encoder.codes(frame), y)
    assert encoder.transform(frame[:1])[0, 0] == pytest.approx(50, abs=1.5)
    assert encoder.feature_names == ["id mean", "id frequency"]


def test_several_targets_have_a_mean_each_and_labels_may_be_missing() -> None:
    frame, y = made(900, 70, effect=1.0)
    y = np.hstack([y, 10 * y, np.full_like(y, np.nan)])
    y[::2, 0] = np.nan
    encoder = Encoder.infer(frame)
    encoder = encoder.fit(encoder.codes(frame), y)
    assert encoder.feature_names == [*(f"id mean of target {index}" for index in range(3)), "id frequency"]
    first, second, none, _ = encoder.transform(frame).T
    assert np.corrcoef(first, second)[0, 1] > 0.9
    assert not none.any()


def test_a_damaged_column_is_refused() -> None:
    with pytest.raises(InputError, match="needs a mean and a share for each category"):
        TargetColumn(name="id", known=("a", "b"), means=((1.0, 2.0),), shares=(1.0, 2.0))
