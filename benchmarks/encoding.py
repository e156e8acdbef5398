"""How columns of many categories, and dates, are best encoded: ``python -m benchmarks.encoding``.

Development tables of the comparison only. Every encoding is made in front of the estimator, as columns that it takes as they are.
Test errors of :class:`gar.GARRegressor`, averaged over draws of training and test rows, relative to the estimator's own encoding.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import torch

from benchmarks.against.tables import frame_of
from gar import GARRegressor

TEST_ROWS, DRAWS, EPOCHS = 4000, 4, 30
Variant = Callable[[pd.DataFrame], pd.DataFrame]


def text_of(column: str) -> Variant:
    """Return the column as text, which the estimator target encodes."""
    return lambda frame: frame.assign(**{column: frame[column].map(str)})


def common(column: str) -> Variant:
    """Return the 19 most frequent categories and one for all others, which the estimator one-hot encodes."""

    def variant(frame: pd.DataFrame) -> pd.DataFrame:
        words = frame[column].map(str)
        return frame.assign(**{column: words.where(words.isin(words.value_counts().index[:19]), "another")})

    return variant


def dummies(column: str) -> Variant:
    """Return an indicator for each category."""
    return lambda frame: pd.get_dummies(frame, columns=[column], dtype=float)


def without(column: str) -> Variant:
    return lambda frame: frame.drop(columns=column)


def dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one column of dates for year, month, day and hour."""
    parts = [name for name in ("year", "month", "day", "hour") if name in frame]
    years = frame["year"] + 1900 * (frame["year"] < 100)
    when = pd.to_datetime(frame[parts].assign(year=years).astype(int))
    return frame.drop(columns=[*parts, *(name for name in ("wday",) if name in frame)]).assign(when=when)


def days(frame: pd.DataFrame) -> pd.DataFrame:
    """Return days since 1970, as numbers."""
    dated = dates(frame)
    return dated.assign(when=(dated["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1))


def of_categories(column: str, *, few: bool = True) -> Mapping[str, Variant]:
    more = {"one-hot of all": dummies(column)} if few else {}
    return {"target": text_of(column), "one-hot of 20": common(column), **more, "left out": without(column)}


OF_DATES: Mapping[str, Variant] = {"cycles": dates, "days alone": days, "parts as numbers": lambda frame: frame.drop(columns="wday", errors="ignore")}

CASES: list[tuple[str, str, int, Mapping[str, Variant]]] = [
    ("ames_housing", "Neighborhood, 28 categories", 2000, of_categories("Neighborhood")),
    ("birthdays_us", "state, 51 categories", 3000, of_categories("state")),
    ("king_county_house_sales", "zipcode, 70 categories", 3000, of_categories("zipcode")),
    ("nlswork_wages", "idcode, 4000 categories", 12000, of_categories("idcode", few=False)),
    ("birthdays_us", "dates of 20 years", 3000, OF_DATES),
    ("wind", "dates of 18 years", 3000, OF_DATES),
    ("beijing_air_pm25", "hours of 4 years", 3000, OF_DATES),
]


def error(name: str, variant: Variant, rows: int, draw: int) -> float:
    """Return the root mean squared error on test rows."""
    frame = frame_of(name)
    order = np.random.default_rng([7, draw]).permutation(len(frame))[: rows + TEST_ROWS]
    sample = frame.iloc[order].reset_index(drop=True)
    x, y = variant(sample.drop(columns="target")), sample["target"].to_numpy(np.float64)
    train, test = slice(0, rows), slice(rows, None)
    model = GARRegressor(loss="mae", encoding="periodic", epochs=EPOCHS, n_networks=2, batch_size=64, random_state=draw)
    pred = model.fit(x.iloc[train], y[train]).predict(x.iloc[test])
    return float(np.sqrt(np.mean((pred - y[test]) ** 2)))


def main() -> None:
    torch.set_num_threads(1)
    for name, what, rows, variants in CASES:
        errors = np.array([[error(name, variant, rows, draw) for variant in variants.values()] for draw in range(DRAWS)])
        ratios = errors / errors[:, :1]
        found = ", ".join(f"{variant} {ratio:.3f} ({spread:.3f})" for variant, ratio, spread in zip(variants, ratios.mean(0), ratios.std(0), strict=True))
        print(f"{name}, {what}, {rows} rows: {found}", flush=True)


if __name__ == "__main__":
    main()
