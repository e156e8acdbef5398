"""How columns of many categories, and dates, are best encoded: ``GAR_DATA_HOME=... python -m benchmarks.encoding``.

Development tables of the comparison only. It prints test errors (RMSE) of :class:`gar.GARRegressor` as ratios to that of the first
encoding: mean and standard deviation over draws of training and test rows.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd
import torch

from benchmarks.against.tables import frame_of
from gar import GARRegressor
from gar.encoding import Encoder

TEST_ROWS, DRAWS = 4000, 4
TARGET, ONE_HOT = 20, 100
"""Categories up to which columns are one-hot encoded; all columns but those in question have at most 20."""

Variant = tuple[Callable[[pd.DataFrame], pd.DataFrame], int]


def categories(frame: pd.DataFrame, column: str, most: int | None = None) -> pd.DataFrame:
    """Return the column as categories; with ``most``, all but the most frequent ones are one category."""
    words = frame[column].map(str)
    if most is not None:
        words = words.where(words.isin(words.value_counts().index[: most - 1]), "another")
    return frame.assign(**{column: words.astype("category")})


def dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one column of dates for year, month, day and hour."""
    parts = frame[[name for name in ("year", "month", "day", "hour") if name in frame]]
    when = pd.to_datetime(parts.assign(year=parts["year"] % 100 + 1900 + 100 * (parts["year"] > 2000)), errors="coerce")
    return frame.drop(columns=[*parts, "wday"], errors="ignore").assign(when=when)


def days(frame: pd.DataFrame) -> pd.DataFrame:
    """Return days since 1970, as numbers."""
    dated = dates(frame)
    return dated.assign(when=(dated["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1))


def of_categories(column: str, *, one_hot: bool = True) -> Mapping[str, Variant]:
    every = partial(categories, column=column)
    variants: dict[str, Variant] = {"target": (every, TARGET), "20 and others": (partial(every, most=20), TARGET)}
    variants |= {"one-hot": (every, ONE_HOT)} if one_hot else {}
    return variants | {"left out": (lambda frame: frame.drop(columns=column), TARGET)}


OF_DATES: Mapping[str, Variant] = {
    "days and cycles": (dates, TARGET),
    "days alone": (days, TARGET),
    "year, month, day, hour": (lambda frame: frame.drop(columns="wday", errors="ignore"), TARGET),
}
CASES = [
    ("ames_housing", "Neighborhood, 28 categories", 2000, of_categories("Neighborhood")),
    ("birthdays_us", "state, 51 categories", 3000, of_categories("state")),
    ("king_county_house_sales", "zipcode, 70 categories", 3000, of_categories("zipcode")),
    ("nlswork_wages", "idcode, 4400 categories", 12000, of_categories("idcode", one_hot=False)),
    ("birthdays_us", "dates of 20 years", 3000, OF_DATES),
    ("wind", "dates of 18 years", 3000, OF_DATES),
    ("beijing_air_pm25", "hours of 4 years", 3000, OF_DATES),
]


def error(name: str, variant: Variant, rows: int, draw: int) -> float:
    """Return the root mean squared error on test rows."""
    frame = frame_of(name)
    sample = frame.iloc[np.random.default_rng([7, draw]).permutation(len(frame))[: rows + TEST_ROWS]].reset_index(drop=True)
    y = sample.pop("target").to_numpy(np.float64)
    of_columns, most = variant
    x = of_columns(sample)
    encoder = Encoder.infer(x, max_categories=most)
    codes = encoder.codes(x)
    fitted, features = encoder.fit_encode(codes[:rows], y[:rows, None])
    model = GARRegressor(epochs=30, n_networks=2, batch_size=64, random_state=draw).fit(features, y[:rows])
    return float(np.sqrt(np.mean((model.predict(fitted.encode(codes[rows:])) - y[rows:]) ** 2)))


def main() -> None:
    torch.set_num_threads(1)
    for name, what, rows, variants in CASES:
        errors = np.array([[error(name, variant, rows, draw) for variant in variants.values()] for draw in range(DRAWS)])
        ratios = errors / errors[:, :1]
        found = zip(variants, ratios.mean(0), ratios.std(0), strict=True)
        shown = ", ".join(f"{variant} {mean:.3f} ({deviation:.3f})" for variant, mean, deviation in found)
        print(f"{name}, {what}, {rows} rows: {shown}", flush=True)


if __name__ == "__main__":
    main()
